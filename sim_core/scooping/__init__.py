"""Scooping granular materials: terrains, scoops, what they bring, and which one to try next."""
