"""Where the avatar's joints are at home: hands before the chest above a table, elbows out, eyes on the hands."""

from __future__ import annotations

__all__ = ["HOME"]

#: of the right arm [rad]: least singular value of the Jacobian 0.19, all joints 0.69 rad from their limits
RIGHT = (1.542, 1.046, -1.484, -2.385, -0.496, 0.676, 1.725)
#: joints that turn the other way on the other side
MIRRORED = (1, 3, 5, 7)
#: [rad or m] by name; what is not named is zero
HOME: dict[str, float] = {
    "head_pitch": 0.75,
    **{f"right_joint{k}": q for k, q in enumerate(RIGHT, 1)},
    **{f"left_joint{k}": -q if k in MIRRORED else q for k, q in enumerate(RIGHT, 1)},
    **{f"left_{finger}": 0.3 for finger in ("index", "middle", "ring", "pinky")},
    "left_thumb_rotation": 0.6,
    "left_thumb_flexion": 0.9,
}
