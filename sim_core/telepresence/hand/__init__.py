"""A person's hand leads the robot's: the glove's angles, poses to calibrate with, and regressions from one to the other."""
