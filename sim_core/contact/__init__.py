"""Contact between a robot's geoms and its surroundings: distances, force laws, impulses (docs/contact.md)."""

import sim_core.articulated  # noqa: F401  The two packages need each other's modules; its own order of imports works.
