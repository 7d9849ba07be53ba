"""Devices: what travels on their wires, who talks to them, and who plays them. Imports neither ROS nor sim_core.

link/           what every driver needs: ports, reconnection, clocks, counters
emulation/      what every emulator needs: pseudo-terminals, faults, the shared world
<device>/       protocol (bytes <-> SI values), device (the link), emulator (the other end of the wire)
"""
