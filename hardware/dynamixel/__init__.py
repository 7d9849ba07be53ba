"""ROBOTIS Dynamixel servos: Protocols 1.0 and 2.0 on one bus, by the driver's own engine or the maker's library."""
