"""What soft objects truly do: finite elements, which share nothing with the models that are fitted to them."""
