"""An emergency stop button that says over a serial line, fifty times a second, that all is well."""
