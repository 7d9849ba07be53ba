"""A quadruped that trots: gait, estimate, stance forces and swinging feet."""
