"""Contact between a robot's geoms and its surroundings: distances, force laws, impulses (docs/contact.md)."""
