"""Devices: what travels on their wires, who talks to them, and who plays them. Imports neither ROS nor sim_core.

link/           what every driver needs: ports, reconnection, clocks, counters
emulation/      what every emulator needs: pseudo-terminals, Modbus, faults, the shared world
wrench/         what force-torque sensors share
<device>/       protocol (bytes <-> SI values), device (the link), emulator (the other end of the wire)

Devices import nothing of each other. `emulate.py` plays any of them, `show_wrench.py` prints what a force-torque sensor says.
"""
