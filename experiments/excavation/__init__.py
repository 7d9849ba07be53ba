"""Dragging a bucket through blocks: what a learnt model foretells, and what planning with it is worth."""
