"""Likelihood-free inference by conditional densities."""

from sim_core.inference.bayessim.bayessim import Fit, fit
from sim_core.inference.bayessim.densities import FEATURES
from sim_core.inference.bayessim.signature import path_signature
from sim_core.inference.bayessim.simulations import Simulations, simulate
from sim_core.inference.bayessim.summaries import SUMMARIES, summary

__all__ = ["FEATURES", "SUMMARIES", "Fit", "Simulations", "fit", "path_signature", "simulate", "summary"]
