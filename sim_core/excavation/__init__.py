"""A toothed bucket is dragged through a pile of blocks along a path, in discrete primitives, and must not jam.

Axes: x away from the robot's base, z up, the bucket turns by alpha about y; with alpha = 0 its floor is level and its teeth point
towards the base, and a greater alpha lifts them. The bucket's pose is (x, y, z, alpha) of the middle of its cutting edge.

Source of the room: Zhu, PhD thesis (University of Illinois 2023), chapter 7.
"""
