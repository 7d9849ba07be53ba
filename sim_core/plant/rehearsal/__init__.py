"""Tasks that a person rehearses through a simulated robot: what stands there, and when each is done."""
