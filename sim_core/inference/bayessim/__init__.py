"""Likelihood-free inference by conditional densities."""

from .bayessim import Fit, fit
from .densities import FEATURES
from .signature import path_signature
from .simulations import Simulations, simulate
from .summaries import SUMMARIES, summary

__all__ = ["FEATURES", "SUMMARIES", "Fit", "Simulations", "fit", "path_signature", "simulate", "summary"]
