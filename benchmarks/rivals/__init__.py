"""Engines that `benchmarks/dynamics.py` is measured against."""
