"""A simulated tray of loose material: what lies in it, how it gives way, what a scoop brings, what a camera sees."""
