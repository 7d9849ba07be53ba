"""One servo made ready: who it is, its EEPROM where it differs, its volatile settings, its goal where it stands."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hardware.dynamixel.joints import Joint
from hardware.dynamixel.tables import (
    CURRENT,
    CURRENT_BASED_POSITION,
    EXTENDED_POSITION,
    POSITION,
    PWM,
    VELOCITY,
    model_by_number,
)
from hardware.dynamixel.transport import Transport
from hardware.dynamixel.velocity_loop import integrates_here, proportional_gain, velocity_range
from hardware.link import DeviceError, WrongDevice

__all__ = [
    "BLOCK_ITEMS",
    "ServoLimits",
    "goal_to_present",
    "hold_in_servo",
    "prepare",
    "set_torque",
    "watchdog",
    "watchdog_counts",
]

#: What the indirect block holds, in order; present_load stands in for present_current where there is no sensing.
BLOCK_ITEMS = (
    "present_position",
    "present_velocity",
    "present_current",
    "hardware_error_status",
    "present_temperature",
    "present_input_voltage",
    "torque_enable",
    "bus_watchdog",
)
TURN_LIMIT = 256 * 4096  # of multi-turn goals, counts


@dataclass(frozen=True)
class ServoLimits:
    """What the servo itself allows, raw: goals beyond are refused by it, silently for a sync write."""

    firmware: int
    temperature: int
    pwm: int
    current: int
    velocity: int
    low: int
    high: int


def prepare(bus: Transport, joint: Joint, release: bool) -> ServoLimits:
    """Make a servo ready for its joint.

    Args:
        release: torque off in any case; else only if it must be for EEPROM to be written.

    Raises:
        WrongDevice: another model answers.
        NotAnswering, StatusError: it does not do its part.
    """
    found = bus.ping(joint.id)
    if found.model != joint.model.number:
        other = model_by_number(found.model)
        raise WrongDevice(
            f"joint {joint.name}: expected {joint.model.name} at id {joint.id}, found "
            f"{other.name if other else f'model number {found.model}'}: set joints.{joint.name}.model or .id"
        )
    settings = _settings2 if joint.model.protocol == 2.0 else _settings1
    return settings(bus, joint, release, found.firmware)


def _settings2(bus: Transport, joint: Joint, release: bool, firmware: int) -> ServoLimits:
    id, items = joint.id, joint.model.items
    # Nobody confirms at a lower return level, so this one write asks for no confirmation.
    bus.sync_write(items["status_return_level"].address, 1, {id: b"\x02"})
    eeprom = bus.read(id, 0, 64)
    now = {
        name: item.unpack(eeprom[item.address : item.address + item.size])
        for name, item in items.items()
        if item.eeprom
    }
    # Normal direction and profiles in rev/min; bit 3 (torque on by goal update) would undo every torque off.
    wanted = {"return_delay_time": 0, "operating_mode": joint.mode, "drive_mode": now["drive_mode"] & ~0b1101}
    if joint.current_limit and joint.model.current_unit:
        wanted["current_limit"] = round(joint.current_limit / joint.model.current_unit)
    if integrates_here(joint):
        wanted["velocity_limit"] = max(now["velocity_limit"], velocity_range(joint))
    _write_where_different(bus, joint, now, wanted, release)
    bus.write_item(id, items["bus_watchdog"], 0)
    _map_block(bus, joint)
    for name, value in _volatile(joint).items():
        bus.write_item(id, items[name], value)
    now |= wanted
    low, high = (
        (now["min_position_limit"], now["max_position_limit"]) if joint.mode == POSITION else (-TURN_LIMIT, TURN_LIMIT)
    )
    limits = ServoLimits(
        firmware,
        now["temperature_limit"],
        now["pwm_limit"],
        now.get("current_limit", 0),
        now["velocity_limit"],
        low,
        high,
    )
    goal_to_present(bus, joint, limits)
    return limits


def _settings1(bus: Transport, joint: Joint, release: bool, firmware: int) -> ServoLimits:
    id, items = joint.id, joint.model.items
    eeprom = bus.read(id, 0, 24)
    now = {
        name: item.unpack(eeprom[item.address : item.address + item.size])
        for name, item in items.items()
        if item.eeprom
    }
    full = 1023 if joint.model.counts_per_turn != 4096.0 else 4095
    # Both angle limits 0 mean wheel mode; a joint that was a wheel gets the whole range back.
    if joint.mode == VELOCITY:
        angles = {"cw_angle_limit": 0, "ccw_angle_limit": 0}
    elif now["cw_angle_limit"] == now["ccw_angle_limit"]:
        angles = {"cw_angle_limit": 0, "ccw_angle_limit": full}
    else:
        angles = {}
    wanted = {"return_delay_time": 0, "status_return_level": 2, **angles}
    _write_where_different(bus, joint, now, wanted, release)
    for name, value in _volatile(joint).items():
        bus.write_item(id, items[name], value)
    now |= wanted
    limits = ServoLimits(
        firmware, now["temperature_limit"], now["max_torque"], 0, 1023, now["cw_angle_limit"], now["ccw_angle_limit"]
    )
    goal_to_present(bus, joint, limits)
    return limits


def _write_where_different(bus: Transport, joint: Joint, now: dict, wanted: dict, release: bool) -> None:
    """EEPROM wears out, and takes nothing while torque is on."""
    items = joint.model.items
    differing = {name: value for name, value in wanted.items() if now[name] != value}
    if release or differing:
        bus.write_item(joint.id, items["torque_enable"], 0)
    for name, value in differing.items():
        bus.write_item(joint.id, items[name], value)


def _map_block(bus: Transport, joint: Joint) -> None:
    """Point the indirect slots at what every cycle reads."""
    indirect, items = joint.model.indirect, joint.model.items
    assert indirect is not None  # every model of Protocol 2.0 has the block
    addresses = b""
    for name in BLOCK_ITEMS:
        item = items[name] if name in items else items["present_load"]
        addresses += b"".join((item.address + k).to_bytes(2, "little") for k in range(item.size))
    if bus.read(joint.id, indirect.address, len(addresses)) != addresses:
        bus.write(joint.id, indirect.address, addresses)


def _volatile(joint: Joint) -> dict[str, int]:
    """RAM items that differ from the servo's own defaults by configuration."""
    model, items = joint.model, joint.model.items
    wanted = {
        f"position_{gain}_gain": value
        for gain in "pid"
        if (value := getattr(joint, f"position_{gain}")) >= 0 and f"position_{gain}_gain" in items
    }
    if integrates_here(joint):
        wanted |= {"velocity_p_gain": proportional_gain(joint), "velocity_i_gain": 0}
    if "profile_velocity" in items and joint.mode in (POSITION, EXTENDED_POSITION, CURRENT_BASED_POSITION):
        wanted["profile_velocity"] = round(joint.profile_velocity * joint.gear_ratio / model.velocity_unit)
    elif joint.mode == POSITION:  # Protocol 1.0: the goal velocity is the position goal's speed, 0 the most
        wanted["goal_velocity"] = min(1023, round(joint.profile_velocity * joint.gear_ratio / model.velocity_unit))
    if "profile_acceleration" in items:
        wanted["profile_acceleration"] = round(joint.profile_acceleration * joint.gear_ratio / model.acceleration_unit)
        if model.protocol == 1.0:
            wanted["profile_acceleration"] = min(254, wanted["profile_acceleration"])
    return wanted


def goal_to_present(bus: Transport, joint: Joint, limits: ServoLimits) -> None:
    """The goal is where the servo stands: torque may come on without a jump."""
    id, items = joint.id, joint.model.items
    if joint.mode == CURRENT:
        bus.write_item(id, items["goal_current"], 0)
    elif joint.mode == PWM:
        bus.write_item(id, items["goal_pwm"], 0)
    elif joint.mode == VELOCITY:
        bus.write_item(id, items["goal_velocity"], 0)
    else:
        position = bus.read_item(id, items["present_position"])
        bus.write_item(id, items["goal_position"], min(max(position, limits.low), limits.high))


def set_torque(bus: Transport, joint: Joint, on: bool) -> None:
    """Torque on or off, confirmed by read-back.

    Raises:
        DeviceError: the servo keeps its old state (a hardware error keeps torque off).
    """
    item = joint.model.items["torque_enable"]
    bus.write_item(joint.id, item, int(on))
    if bus.read_item(joint.id, item) != int(on):
        raise DeviceError(
            f"joint {joint.name} (id {joint.id}) keeps its torque {'off' if on else 'on'}: see its hardware error"
        )


def watchdog_counts(seconds: float) -> int:
    """The register's value for so long [s]; 0: never."""
    return min(127, math.ceil(seconds / 0.02))


def watchdog(bus: Transport, joint: Joint, counts: int) -> None:
    """The servo stops by itself after so many counts of 20 ms without a word; 0: never. Protocol 1.0 has none."""
    if "bus_watchdog" in joint.model.items:
        bus.write_item(joint.id, joint.model.items["bus_watchdog"], counts)


def hold_in_servo(bus: Transport, joint: Joint) -> None:
    """A servo that took effort or velocity holds its position by itself; its torque is off for two bus cycles."""
    if joint.model.protocol == 1.0:
        bus.write_item(joint.id, joint.model.items["goal_velocity"], 0)
        return
    items, mode = joint.model.items, EXTENDED_POSITION
    set_torque(bus, joint, False)
    bus.write_item(joint.id, items["operating_mode"], mode)
    bus.write_item(joint.id, items["goal_position"], bus.read_item(joint.id, items["present_position"]))
    set_torque(bus, joint, True)
