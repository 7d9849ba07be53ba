"""What pokes of other objects tell of a new one: a network that sees the object, learnt by `sim_core.meta`, and its use.

Start at `learned_model.py`; docs/elastic.md explains it. All needs the tier "learning".
"""
