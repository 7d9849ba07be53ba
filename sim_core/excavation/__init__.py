"""A toothed bucket is dragged through a pile of blocks along a path, in discrete primitives, and must not jam.

Axes: x away from the robot's base, z up from the pile's surface; the bucket turns by alpha about y. With alpha = 0 its floor is level
and its teeth point towards the base; a greater alpha lifts them. The bucket's pose is (x, y, z, alpha) of its middle, about which it
turns; what digs, its cutting edge, is below that (`bucket.py`).

Source of the room: Zhu, PhD thesis (University of Illinois 2023), chapter 7.
"""
