"""Public collections of heart and lung recordings, each read as it is published."""
