"""Fitting models to trajectories: shooting, robust least squares, uncertainty, identification."""
