"""Robotiq 2F-85 and 2F-140 two-finger grippers on Modbus RTU."""
