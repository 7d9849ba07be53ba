"""What a robot's sensors and servos are really like, from a recording of them: one function for each kind of device."""
