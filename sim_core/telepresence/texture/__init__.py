"""What a surface would feel like, from depth pictures of a camera at the wrist, without touching it."""
