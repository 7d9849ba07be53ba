"""Soft objects: what a few pokes tell of them."""
