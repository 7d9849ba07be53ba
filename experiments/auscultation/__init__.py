"""Listening to hearts and lungs: where, how well, and how soon."""
