"""Any force-torque sensor on a serial line whose frames a YAML file can describe."""
