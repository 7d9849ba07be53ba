"""Models that adapt to a new task from few trials: deep kernels, meta-learnt on many tasks, and their rivals.

Start at `model.py`, which says what every model offers, and `codega.py`; docs/meta.md explains them. All but `folds.py` needs
the tier "learning".
"""
