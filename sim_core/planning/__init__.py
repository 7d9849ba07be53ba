"""Planners that learn from few trials: what to try next among candidates, from what the trials so far gave.

Start at `planner.py`, which says what every planner is asked, told and stored as; docs/planning.md explains it.
"""
