"""Coloured soft objects of known stiffness: what a camera sees of them, and what probes feel."""
