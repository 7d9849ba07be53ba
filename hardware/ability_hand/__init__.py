"""Psyonic Ability Hand on a serial line."""
