"""From recorded scans of a known scene to poses: where the scanner stood, where a body stood."""
