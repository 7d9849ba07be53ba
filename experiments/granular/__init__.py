"""Loose matter: the published laws, tried with the discrete-element kernel."""
