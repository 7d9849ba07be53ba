"""A Dynamixel bus that is not there: servos of several models behind a pseudo-terminal, as a U2D2 would show them.

`./refit emulate dynamixel --link /tmp/dxl --servos servos.yaml`, where the file (or the argument itself) is

    - {id: 1, model: XM430-W350, joint: shoulder, direction: 1, zero_count: 2048, gear_ratio: 1.0,
       torque_constant: 1.783, initial: 0.0, load_inertia: 0.01, registers: {baud_rate: 3, return_delay_time: 0}}
    - {id: 2, model: XL330-M288}

With --world the joints named there move as the plant says, and the plant gets k_t i of their motors: the gear's
friction is the plant's business. All others move by the dynamics of emulated_motors.py.

Page: docs/hardware/dynamixel.md.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import select
import time
from collections import deque
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from hardware.dynamixel.emulated_bus import Bus, Reply
from hardware.dynamixel.emulated_codec import Request
from hardware.dynamixel.emulated_models import MODELS
from hardware.dynamixel.emulated_motors import AMBIENT, TICK
from hardware.dynamixel.emulated_servo import ENCODER, OVERHEAT, Servo, ServoSpec
from hardware.emulation.emulator import Emulator
from hardware.emulation.faults import Faults
from hardware.emulation.pty_port import PtyPort
from hardware.emulation.world import SharedWorld, world_of_plant

__all__ = ["DynamixelEmulator", "arguments", "load_servos", "make"]

#: one XM430-W350 as it leaves the factory
FACTORY = "[{id: 1, model: XM430-W350}]"
MOST_TICKS = 50  # made up for at once after a pause of the process; what is beyond is skipped
WAKE = 2e-3  # [s] the motors are moved on at least so often, and whenever a request comes: waking up costs more
SLICE = 2e-3  # [s] of wire time handed over at once


class DynamixelEmulator(Emulator):
    """See the module's docstring.

    Args:
        specs: the servos.
        link: symbolic link to open as the serial port.
        world: shared world, or None.
        pace: replies take their time on the wire, and return delays are kept.
        strict_stuffing: packets with an unstuffed FF FF FD are refused.

    Attributes:
        bus: servos and motors.
        events: (monotonic time [s], text) of what deserves a line: unstuffed packets, refused broadcasts.
        traffic: the newest exchanges as (number, monotonic time at which the request was there [s], instruction, its
            parameters, bytes of the request, bytes of all replies).
    """

    name = "dynamixel"
    own_faults = {
        "drop_id": "servo `id` neither hears nor speaks",
        "id_conflict": "a second servo has `id`: replies collide",
        "stall": "the horn of `id` is held (own dynamics only)",
        "encoder_fault": "the encoder of `id` freezes, hardware error bit 3",
        "low_voltage": "the supply is at `volts` (default 1 V below the lowest limit)",
        "overtemp": "servo `id` is at `celsius` (default 5 above its limit)",
        "late_reply": "a status packet leaves `by` seconds late (default 0.045), with probability p",
    }
    longest_step = WAKE

    def __init__(
        self,
        specs: list[ServoSpec],
        link: Path,
        faults: Faults | None = None,
        *,
        world: SharedWorld | None = None,
        pace: bool = True,
        strict_stuffing: bool = False,
    ) -> None:
        super().__init__(faults)
        self.events: deque[tuple[float, str]] = deque(maxlen=200)
        self.traffic: deque[tuple[int, float, int, bytes, int, int]] = deque(maxlen=500)
        self._exchanges = itertools.count()
        self.bus = Bus(specs, self._log, strict_stuffing)
        self.pace = pace
        self.port = PtyPort(
            link, self.bus.servos[0].baud, pace=False
        )  # what is due when is known here, no second thread for it
        self.world = world
        if world is not None:
            self._join(world)
        self._due: list[tuple[float, int, bytes]] = []
        self._order = itertools.count()
        self._line_free = 0.0  # when the last scheduled packet has left [s]
        self._latest = 0.0  # when the last late packet leaves: servos answer in order, nothing overtakes it [s]
        self._moved = time.monotonic()
        self._skipped = 0

    def _log(self, text: str) -> None:
        self.events.append((time.monotonic(), text))

    # -- the loop ----------------------------------------------------------------------------------
    def step(self, timeout: float) -> None:
        """Wait for bytes until something is due, then answer, send, move."""
        now = time.monotonic()
        due = self._moved + WAKE
        if self._due:
            due = min(due, self._due[0][0])
        rest = max(0.0, min(timeout, due - now))
        if not self.port.plugged:
            time.sleep(rest)
        elif select.select([self.port.fileno()], (), (), rest)[0]:
            if time.monotonic() >= self._moved + WAKE:
                self._move(time.monotonic())  # first: whoever asks is told of now, also after this process was held up
            self._listen()
        now = time.monotonic()
        while self._due and self._due[0][0] <= now:
            self.port.write(heapq.heappop(self._due)[2])
        if now >= self._moved + WAKE:
            self._move(now)

    def _move(self, now: float) -> None:
        """The ticks that are due."""
        ticks = int((now - self._moved) / TICK)
        self._moved += ticks * TICK
        self._skipped += max(0, ticks - MOST_TICKS)
        if self.world is not None:
            self._follow(self.world)
        for _ in range(min(ticks, MOST_TICKS)):
            self.bus.tick(now)
        if self.world is not None:
            m = self.bus.motors
            self.world.apply(self._joints, m.tau[self._linked] * self._torque_to_joint, m.commanded[self._linked])

    def _listen(self) -> None:
        baud = self.port.client_baud()
        if baud != self.port.baud and self.bus.hears(baud) and self.faults.active("wrong_baud") is None:
            self.port.baud = baud
        data = self.port.read()
        if not data or not self.powered:
            return
        now = time.monotonic()
        self._move(now)
        for request, replies in self.bus.feed(data, now, baud):
            self.traffic.append(
                (
                    next(self._exchanges),
                    now,
                    request.instruction,
                    request.parameters,
                    request.size,
                    sum(len(reply.packet) for reply in replies),
                )
            )
            self._schedule(request, replies, now, baud)

    def _schedule(self, request: Request, replies: list[Reply], now: float, baud: int) -> None:
        """Replies follow the request's own time on the wire, and each other. What ends within a SLICE goes out at once."""
        byte = 10.0 / baud if self.pace else 0.0
        end = max(now, self._line_free) + request.size * byte
        block, began = b"", end
        for gap, packet in replies:
            gap = gap if self.pace else 0.0
            begin = end + gap
            if block and (gap or begin + len(packet) * byte - began > SLICE):
                self._push(end, block)
                block = b""
            if not block:
                began = begin
            end = begin + len(packet) * byte
            late = self._lateness()
            for delay, frame in self.faults.frames(packet):
                if late or delay:
                    self._latest = max(self._latest, end + late + delay)
                    self._push(self._latest, frame)
                else:
                    block += frame
        if block:
            self._push(end, block)
        self._line_free = end if self.pace else 0.0

    def _push(self, due: float, data: bytes) -> None:
        heapq.heappush(self._due, (max(due, self._latest), next(self._order), data))

    def _lateness(self) -> float:
        fault = self.faults.active("late_reply")
        return float(fault.get("by", 0.045)) if fault is not None and self.faults.hit("late_reply") else 0.0

    # -- the world ---------------------------------------------------------------------------------
    def _join(self, world: SharedWorld) -> None:
        """Hand the joints that the world has over to it."""
        linked = [servo for servo in self.bus.servos if servo.spec.joint in world.joints]
        specs, m = [servo.spec for servo in linked], self.bus.motors
        self._joints = world.indices([spec.joint for spec in specs])
        self._linked = np.array([servo.k for servo in linked], int)
        ratio = np.array([spec.direction * spec.gear_ratio for spec in specs])
        self._joint_to_horn, self._torque_to_joint = ratio, ratio
        self._horn_zero = np.array([spec.horn(0.0) for spec in specs])
        m.own[self._linked] = False
        m.refresh()
        self._follow(world)
        m.q_ref[:] = m.q
        for servo in self.bus.servos:
            servo.boot(time.monotonic())

    def _follow(self, world: SharedWorld) -> None:
        state, m = world.state(), self.bus.motors
        m.q[self._linked] = self._horn_zero + self._joint_to_horn * state.q[self._joints]
        m.v[self._linked] = self._joint_to_horn * state.v[self._joints]

    # -- faults ------------------------------------------------------------------------------------
    def _affected(self, parameters: dict) -> list[Servo]:
        """Servos that a fault is for: those of its `id`, all without one."""
        return [servo for servo in self.bus.servos if parameters.get("id") in (None, servo.id)]

    def on_fault(self, name: str, parameters: dict) -> None:
        bus, m = self.bus, self.bus.motors
        servos = self._affected(parameters)
        if name == "drop_id":
            bus.dropped |= {servo.id for servo in servos}
        elif name == "id_conflict":
            bus.doubled |= {servo.id for servo in servos}
        elif name == "stall":
            for servo in servos:
                m.locked[servo.k] = True
                if not m.own[servo.k]:
                    self._log(f"stall has no effect on servo {servo.id}: its joint moves as the plant says")
            m.refresh()
        elif name == "encoder_fault":
            for servo in servos:
                servo.causes |= ENCODER
        elif name == "low_voltage":
            for servo in servos:
                m.V[servo.k] = float(parameters.get("volts", 0.1 * servo.table["min_voltage_limit"] - 1.0))
            self._new_supply()
        elif name == "overtemp":
            for servo in servos:
                m.temperature[servo.k] = float(parameters.get("celsius", servo.table["temperature_limit"] + 5))
                servo.causes |= OVERHEAT
        elif name == "power_cycle":
            for servo in bus.servos:
                servo.switch_off(float("inf"))

    def on_clear(self, name: str) -> None:
        bus, m = self.bus, self.bus.motors
        if name == "drop_id":
            bus.dropped.clear()
        elif name == "id_conflict":
            bus.doubled.clear()
        elif name == "stall":
            m.locked[:] = False
            m.refresh()
        elif name == "low_voltage":
            m.V[:] = [servo.model.motor.volts for servo in bus.servos]
            self._new_supply()
        for servo in bus.servos:
            if name == "encoder_fault":
                servo.causes &= ~ENCODER
            elif name == "overtemp" and servo.causes & OVERHEAT:
                servo.causes &= ~OVERHEAT
                m.temperature[servo.k] = AMBIENT

    def _new_supply(self) -> None:
        for servo in self.bus.servos:
            servo.configure()

    def unplug(self) -> None:
        self._due.clear()
        self._latest = 0.0
        super().unplug()

    def power_on(self) -> None:
        for servo in self.bus.servos:
            servo.boot(time.monotonic())

    # -- the control socket ------------------------------------------------------------------------
    def set(self, **values: Any) -> None:
        """`load`, `position`, `temperature`: {id: N m, rad or deg C} at the joint; `volts`: supply; `strict_stuffing`.

        Raises:
            ValueError: no such value or servo.
        """
        m = self.bus.motors
        for name, value in values.items():
            if name == "volts":
                m.V[:] = float(value)
                self._new_supply()
                continue
            if name == "strict_stuffing":
                self.bus.strict_stuffing = bool(value)
                continue
            if name not in ("load", "position", "temperature"):
                raise ValueError(
                    f"{self.name} has load, position, temperature, volts and strict_stuffing to set, not {name}"
                )
            for id, number in dict(value).items():
                servo = self._servo(int(id))
                spec, k = servo.spec, servo.k
                if name == "load":
                    m.load[k] = spec.direction * float(number) / spec.gear_ratio
                elif name == "position":
                    m.q[k], m.v[k] = spec.horn(float(number)), 0.0
                else:
                    m.temperature[k] = float(number)

    def _servo(self, id: int) -> Servo:
        for servo in self.bus.servos:
            if servo.id == id:
                return servo
        raise ValueError(f"there is no servo {id}, only {', '.join(str(servo.id) for servo in self.bus.servos)}")

    def stats(self) -> dict:
        """The base's, and: bus counts, events, traffic, truth of each servo (joint rad, rad/s, A, N m at the horn), ticks, CPU time [s]."""
        m = self.bus.motors
        servos = [
            {
                "id": servo.id,
                "model": servo.model.name,
                "joint": servo.spec.joint,
                "torque_enable": servo.table["torque_enable"],
                "hardware_error": servo.error,
                "baud": servo.baud,
                "position": float(m.q[servo.k] - servo.spec.horn(0.0)) * servo.spec.direction / servo.spec.gear_ratio,
                "velocity": float(m.v[servo.k]) * servo.spec.direction / servo.spec.gear_ratio,
                "current": float(m.i[servo.k]),
                "torque": float(m.tau[servo.k]),
                "temperature": float(m.temperature[servo.k]),
                "watchdog_expired": servo.table.goals_locked,
            }
            for servo in self.bus.servos
        ]
        return {
            **super().stats(),
            **self.bus.counts,
            "servos": servos,
            "events": list(self.events),
            "traffic": [(k, t, code, parameters.hex(), *sizes) for k, t, code, parameters, *sizes in self.traffic],
            "ticks": self.bus.ticks,
            "skipped_ticks": self._skipped,
            "cpu_s": time.process_time(),
        }


def load_servos(source: str, baud: int | None = None) -> list[ServoSpec]:
    """Servos from a YAML file, or from YAML itself; `baud` is set in those that name no baud_rate.

    Raises:
        ValueError: no such file, or not a list of servos.
    """
    inline = source.lstrip().startswith(("[", "-", "{"))
    try:
        found = yaml.safe_load(source if inline else Path(source).read_text())
    except (OSError, yaml.YAMLError) as error:
        raise ValueError(f"servos are expected as a YAML file or as YAML itself: {error}") from None
    if isinstance(found, dict):
        found = found.get("servos")
    if not isinstance(found, list) or not found:
        raise ValueError(f"a list of servos is expected, found {found!r}")
    specs = [ServoSpec.parse(entry) for entry in found]
    if baud is not None:
        for spec in specs:
            codes = [code for code, rate in spec.model.bauds.items() if abs(rate - baud) <= 0.03 * baud]
            if not codes:
                raise ValueError(
                    f"{spec.model.name} knows no {baud} baud, only {', '.join(map(str, sorted(spec.model.bauds.values())))}"
                )
            spec.registers.setdefault("baud_rate", min(codes, key=lambda code: abs(spec.model.bauds[code] - baud)))
    return specs


def arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `hardware.emulate dynamixel`."""
    own = "; ".join(f"{name}: {text}" for name, text in DynamixelEmulator.own_faults.items())
    parser.epilog = f"{parser.epilog or ''}; faults of this bus: {own}".lstrip("; ")
    parser.add_argument(
        "--servos", default=FACTORY, help=f"YAML file, or YAML, with the servos (models: {', '.join(MODELS)})"
    )
    parser.add_argument("--baud", type=int, help="baud rate of servos that name none (factory: 57600)")
    parser.add_argument("--return-delay", type=int, help="return delay [us] of servos that name none (factory: 500)")
    parser.add_argument("--strict-stuffing", action="store_true", help="refuse packets with an unstuffed FF FF FD")
    parser.add_argument("--no-pace", action="store_true", help="answer at once: no time on the wire, no return delay")


def make(options: argparse.Namespace, faults: Faults) -> DynamixelEmulator:
    """The emulator that the options describe.

    Raises:
        ValueError: options that cannot be.
    """
    if options.link is None:
        raise ValueError("--link is needed: the path that clients open as the serial port")
    specs = load_servos(options.servos, options.baud)
    if options.return_delay is not None:
        for spec in specs:
            spec.registers.setdefault("return_delay_time", options.return_delay // 2)
    world = world_of_plant(options.world) if options.world else None
    return DynamixelEmulator(
        specs, options.link, faults, world=world, pace=not options.no_pace, strict_stuffing=options.strict_stuffing
    )
