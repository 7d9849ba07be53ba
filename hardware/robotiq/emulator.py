"""A Robotiq 2F gripper on a pseudo-terminal: `python -m hardware.emulate robotiq --link /tmp/gripper`.

Values to set: object_width, cavity_width [m] (null: none); they are what the fingers meet. With --world the fingers
are a joint of the simulated robot instead.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

from hardware.emulation.emulator import Emulator
from hardware.emulation.faults import Faults
from hardware.emulation.modbus_slave import RegisterBank, RequestFinder, serve
from hardware.emulation.pty_port import PtyPort
from hardware.emulation.world import world_of_plant
from hardware.robotiq.fingers import Fingers, OwnFingers, WorldFingers
from hardware.robotiq.gripper import GRIPPERS, INTERNAL, OVERCURRENT, UNDERVOLTAGE, Gripper

__all__ = ["RobotiqEmulator", "arguments", "make"]

OUTPUT, STATUS, REGISTERS = 1000, 2000, 8
LONGEST_STEP = 0.002  # [s] of motion computed at once: a count of the 2F-140 at full speed


class RobotiqEmulator(Emulator):
    """The gripper behind its port.

    Args:
        port: that clients open.
        gripper: the device.
        unit: its Modbus address.
        faults: on demand.
    """

    name = "robotiq"
    own_faults = {
        "low_voltage": "fault 0A until the next activation",
        "internal": "fault 0C likewise",
        "overcurrent": "fault 0E likewise",
        "lost_object": "whatever the fingers hold is gone",
    }
    longest_step = 0.005

    def __init__(self, port: PtyPort, gripper: Gripper, unit: int = 9, faults: Faults | None = None) -> None:
        super().__init__(faults)
        self.port, self.gripper = port, gripper
        self.requests = self.refusals = 0
        self._finder = RequestFinder(unit)
        self._bank = RegisterBank(
            [range(OUTPUT, OUTPUT + REGISTERS), range(STATUS, STATUS + REGISTERS)],
            range(OUTPUT, OUTPUT + REGISTERS),
            self._read,
            self._write,
        )
        self._time = self._heard = time.monotonic()
        self.gripper.hear(self._time)

    def step(self, timeout: float) -> None:
        data = self.port.read(timeout)
        now = time.monotonic()
        self._advance(now)
        if not self.powered:
            self._finder.forget()
            return
        if not data and self._finder.incomplete and now - self._heard > 0.1:
            self._finder.forget()
        if data:
            self._heard = now
        for request in self._finder.feed(data):
            self.gripper.hear(now)
            reply = serve(request, self._bank)
            self.requests += 1
            self.refusals += len(reply) > 1 and bool(reply[1] & 0x80)
            if reply:
                self.send(reply)

    def _advance(self, now: float) -> None:
        while self._time < now:
            dt = min(LONGEST_STEP, now - self._time)
            self._time += dt
            if self.powered:
                self.gripper.advance(dt)

    def _read(self, address: int) -> int:
        block, k = (
            (self.gripper.status(), address - STATUS) if address >= STATUS else (self.gripper.output, address - OUTPUT)
        )
        return block[k] if k < len(block) else 0

    def _write(self, address: int, values: list[int]) -> None:
        self.gripper.write(address - OUTPUT, values)

    # -- control -----------------------------------------------------------------------------------
    def power_on(self) -> None:
        self.gripper.power_on()

    def on_fault(self, name: str, parameters: dict) -> None:
        if name == "overtemp":
            self.gripper.hot = True
        elif name == "lost_object":
            self.set(object_width=None, cavity_width=None)
        elif fault := {"low_voltage": UNDERVOLTAGE, "internal": INTERNAL, "overcurrent": OVERCURRENT}.get(name):
            self.gripper.fail(fault)

    def on_clear(self, name: str) -> None:
        if name == "overtemp":
            self.gripper.hot = False

    def set(self, **values: Any) -> None:
        fingers = self.gripper.fingers
        for name, none in (("object_width", 0.0), ("cavity_width", float("inf"))):
            if name in values and isinstance(fingers, OwnFingers):
                value = values.pop(name)
                setattr(fingers, name, none if value is None else float(value))
        super().set(**values)

    def stats(self) -> dict:
        g = self.gripper
        return {
            **super().stats(),
            "width": g.fingers.width,
            "state": g.state,
            "contact": g.contact,
            "fault": g.fault,
            "output": list(g.output),
            "requests": self.requests,
            "refusals": self.refusals,
            "damaged": self._finder.damaged,
        }


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `refit emulate` that this device has alone."""
    parser.add_argument("--model", choices=GRIPPERS, default="2f_85")
    parser.add_argument("--unit", type=int, default=9, help="Modbus address")
    parser.add_argument("--activation-speed", type=float, help="of the fingers while they learn their stroke [m/s]")
    parser.add_argument("--joint", default="finger_joint", help="with --world: the fingers' joint")
    parser.add_argument("--joint-open", type=float, default=0.0, help="its position when open [rad or m]")
    parser.add_argument("--joint-closed", type=float, default=0.8, help="its position when closed [rad or m]")


def make(options: argparse.Namespace, faults: Faults) -> RobotiqEmulator:
    """The emulated device that the options describe."""
    mechanics = GRIPPERS[options.model]
    if options.world:
        fingers: Fingers = WorldFingers(
            world_of_plant(options.world),
            options.joint,
            mechanics.stroke,
            options.joint_open,
            options.joint_closed,
        )
    else:
        fingers = OwnFingers(mechanics.stroke)
    gripper = Gripper(mechanics, fingers, options.activation_speed)
    return RobotiqEmulator(PtyPort(options.link, 115200), gripper, options.unit, faults)
