"""Soft objects of uneven stiffness: what a rigid body feels that is pressed into one, from the object's surface and a few pokes.

All lengths are in metres and forces in newtons, in one world frame. A displacement is positive into the object, along the inward normal.

Source of the room: Zhu, PhD thesis (University of Illinois 2023), chapter 4 and sections 6.5 and 6.6; Zhu, Lu, Hauser (ICRA 2020).
"""
