"""A continuous-wave LIDAR from its optics up, with derivatives, and what can be inferred of scenes and sensors by it."""
