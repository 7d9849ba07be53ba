"""Robotiq FT-300 and FT-300-S: Modbus RTU, and a stream of wrenches at 100 Hz."""
