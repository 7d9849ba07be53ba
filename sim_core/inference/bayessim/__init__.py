"""Likelihood-free inference by conditional densities."""

from .bayessim import Fit, fit, simulate
from .densities import FEATURES
from .signature import path_signature
from .summaries import SUMMARIES, summary

__all__ = ["FEATURES", "SUMMARIES", "Fit", "fit", "path_signature", "simulate", "summary"]
