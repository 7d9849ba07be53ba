"""Which scoop to try next, and the search that goes on until a sample is large enough."""
