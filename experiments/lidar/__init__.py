"""The continuous-wave LIDAR: where a sensor stands, where a mirror stands, what a diode does."""
