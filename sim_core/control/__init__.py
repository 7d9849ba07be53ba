"""Model-predictive control on the differentiable simulator, and its refit."""
