"""One emulated servo: its control table, what writing to it does to the motor, its errors and its watchdog.

Sources: ROBOTIS e-manual, control tables of X, MX(2.0), MX and AX. Gains of the table become (duty per count,
with 885 counts of duty = 100 % and a control period of 1 ms, which is an assumption):
position P/128, I/65536, D/16; velocity P/128, I/65536. MX under Protocol 1.0: P/8, I 1000/2048, D 4/1000, with
1023 counts of duty; AX: the compliance slope, counts from no duty to full.

Assumptions where the manual is silent: a goal written before the torque is switched on is followed when it is;
a shutdown error stays until reboot, other error bits as long as their cause; an overload is 2 s beyond 80 % of
the stall current; the watchdog stops a position at where it is, and sets the other goals to zero.
"""

from __future__ import annotations

import dataclasses
import struct
from dataclasses import dataclass, field
from math import floor, pi

from hardware.dynamixel.emulated_models import RPM, Model, Register, find_model
from hardware.dynamixel.emulated_motors import NO_LIMIT, Motors
from hardware.dynamixel.emulated_table import INSTRUCTION, RESULT, ControlTable, TableError

__all__ = ["ENCODER", "OVERHEAT", "OVERLOAD", "Servo", "ServoSpec", "VOLTAGE"]

VOLTAGE, OVERHEAT, ENCODER, SHOCK, OVERLOAD = 1, 4, 8, 16, 32  # hardware error bits, Protocol 2.0
P1_BITS = {VOLTAGE: 1, OVERHEAT: 4, OVERLOAD: 32}  # where Protocol 1.0 has a bit for them
CURRENT, VELOCITY, POSITION, EXTENDED, CURRENT_POSITION, PWM = 0, 1, 3, 4, 5, 16
REBOOT_TIME = 0.3  # [s] of silence
#: registers that the motor does not care about
INERT = frozenset(
    {"led", "alarm_led", "status_return_level", "return_delay_time", "secondary_id", "moving_threshold", "punch"}
)
OVERLOAD_SHARE, OVERLOAD_TIME = 0.8, 2.0
ACCELERATION_UNIT = 214.577 * RPM / 60.0  # [rad/s2] of profile acceleration
P1_ACCELERATION_UNIT = 8.583 * pi / 180.0  # [rad/s2] of MX goal acceleration
PRESENT_X = struct.Struct("<HBBhhiiiiHB")  # 120..146
PRESENT_P1 = struct.Struct("<HHHBBBxB")  # 36..46


@dataclass(frozen=True)
class ServoSpec:
    """What is mounted where.

    Attributes:
        joint: name in the shared world, "" for none. direction: +1 if the joint's positive sense is the horn's
            (counter-clockwise). zero_count: present position at joint angle 0, the middle of the range unless given. gear_ratio: horn turns per joint turn.
        torque_constant: at the horn [N m/A], None for the model's.
        initial: joint angle at the start [rad].
        load_inertia: about the joint's axis [kg m2], load_torque on it [N m]: for the servo's own dynamics.
        registers: EEPROM values that differ from the factory's.
        fast_reads: whether its firmware knows fast sync and bulk reads.
    """

    id: int
    model: Model
    joint: str = ""
    direction: int = 1
    zero_count: int = 2048
    gear_ratio: float = 1.0
    torque_constant: float | None = None
    initial: float = 0.0
    load_inertia: float = 0.0
    load_torque: float = 0.0
    registers: dict[str, int] = field(default_factory=dict)
    fast_reads: bool = True

    @classmethod
    def parse(cls, entry: dict) -> ServoSpec:
        """From YAML.

        Raises:
            ValueError: a key or a value that cannot be.
        """
        known = {f.name for f in dataclasses.fields(cls)}
        if not isinstance(entry, dict) or unknown_keys(entry, known) or not {"id", "model"} <= entry.keys():
            raise ValueError(
                f"a servo needs id and model and may have {', '.join(sorted(known - {'id', 'model'}))}; found {entry}"
            )
        model = find_model(entry["model"])
        spec = cls(**{"zero_count": (model.travel + 1) // 2, **entry, "model": model})
        if not 0 <= spec.id <= 252 or spec.direction not in (1, -1) or spec.gear_ratio <= 0.0:
            raise ValueError(f"servo {spec.id}: id 0 to 252, direction 1 or -1 and a gear_ratio above 0 are expected")
        names = {r.name: r for r in spec.model.registers if r.eeprom and r.writable}
        for name, value in spec.registers.items():
            if name not in names or not names[name].low <= value <= names[name].high:
                raise ValueError(
                    f"servo {spec.id}: {spec.model.name} has no EEPROM register {name} that takes {value}; "
                    f"it has {', '.join(names)}"
                )
        return spec

    def horn(self, joint: float) -> float:
        """Angle of the horn, zero at count 0, for a joint angle [rad]."""
        return self.direction * self.gear_ratio * joint + self.zero_count * 2.0 * pi / self.model.counts


def unknown_keys(entry: dict, known: set[str]) -> list[str]:
    """Keys that are not known."""
    return [key for key in entry if key not in known]


class Servo:
    """One servo on the bus. The bus calls `boot`, `write`, `watch`, `publish`; times are monotonic [s].

    Attributes:
        table: its control table.
        sign, offset: present position = sign * counts of the horn + offset.
        off_until: silent until then (booting); inf without power.
        error: hardware error bits, as register 70.
        heard: time of the last instruction packet on the bus.
    """

    def __init__(self, spec: ServoSpec, motors: Motors, k: int) -> None:
        self.spec, self.model, self.motors, self.k = spec, spec.model, motors, k
        self.table = ControlTable(spec.model)
        self.two = spec.model.protocol == 2
        self.per_count = 2.0 * pi / self.model.counts
        self.sign, self.offset, self.turns = 1, 0, 0
        self.error, self.causes, self.frozen = 0, 0, 0
        self.off_until = self.heard = self.overloaded_since = 0.0
        self.registered: tuple[int, bytes] | None = None
        self.on_identity = lambda: None  # hooks of the bus: id or baud rate has changed;
        self.on_event = lambda text: None  # something deserves a line in the log
        self.table["id"] = spec.id
        for name, value in spec.registers.items():
            self.table[name] = value
        self.boot(0.0)

    # -- what packets see --------------------------------------------------------------------------
    @property
    def id(self) -> int:
        return self.table["id"]

    @property
    def protocol(self) -> int:
        return self.table.get("protocol_type", self.model.protocol)

    @property
    def baud(self) -> int:
        return self.model.bauds.get(self.table["baud_rate"], 0)

    @property
    def return_delay(self) -> float:
        """[s]"""
        return 2e-6 * self.table["return_delay_time"]

    @property
    def alert(self) -> int:
        """What hardware errors add to a status packet's error byte."""
        if self.protocol == 2:
            return 0x80 if self.error else 0
        return sum(bit for cause, bit in P1_BITS.items() if self.error & cause)

    def write(self, address: int, data: bytes) -> None:
        """An instruction's write.

        Raises:
            TableError: refused; nothing was changed.
        """
        for register, value in self.table.check(address, data):
            self.table.store(register, value)
            self._wrote(register, value)

    def register_write(self, address: int, data: bytes) -> None:
        """Keep a write for `action`.

        Raises:
            TableError: it would be refused.
        """
        self.table.check(address, data)
        self._register((address, data))

    def action(self) -> None:
        """Do what was registered.

        Raises:
            TableError: instruction error, nothing was; or refused by now.
        """
        if self.registered is None:
            raise TableError(INSTRUCTION)
        address, data = self.registered
        self._register(None)
        self.write(address, data)

    def _register(self, what: tuple[int, bytes] | None) -> None:
        self.registered = what
        self.table["registered_instruction" if self.two else "registered"] = what is not None

    def clear_turns(self) -> None:
        """Present position back into one turn.

        Raises:
            TableError: Result Fail while it moves, by what its register Moving says.
        """
        m, k = self.motors, self.k
        velocity = round(m.v_meas[k] / self.model.velocity_unit)
        if self._moving(velocity, running=m.profiled and m.q_ref[k] != m.q_goal[k] and self.positions):
            raise TableError(RESULT)
        self._count_one_turn()
        self._goal_here()

    @property
    def positions(self) -> bool:
        """Whether the mode has a goal position."""
        return self.mode in (POSITION, EXTENDED, CURRENT_POSITION)

    def _moving(self, velocity: int, running: bool) -> bool:
        """Register Moving: a profile is `running`, or the present velocity [units] is above the threshold."""
        return running or abs(velocity) > self.table["moving_threshold"]

    def factory_reset(self, option: int) -> None:
        """As instruction 06: all (0xFF), all but the id (1), all but id and baud rate (2)."""
        self.table.reset_eeprom({1: ("id",), 2: ("id", "baud_rate")}.get(option, ()))
        self.on_identity()

    # -- power -------------------------------------------------------------------------------------
    def switch_off(self, until: float) -> None:
        """No power, or rebooting: no torque, no answers; `boot` when `until` has come."""
        self.off_until = until
        self._goals()

    def boot(self, now: float) -> None:
        """Volatile state as after power-up."""
        self.off_until, self.heard = 0.0, now
        self.table.reset_ram()
        self.table.goals_locked = False
        self.registered, self.error, self.overloaded_since = None, 0, now
        self._reset_goals()
        self._count_one_turn()
        self._goal_here()
        self.configure()

    def _reset_goals(self) -> None:
        """Goals that bound are at their limits, goals that move are zero."""
        table = self.table
        if not self.two:
            table["torque_limit"] = table["max_torque"]
            return
        table["goal_velocity"] = 0
        table["goal_pwm"] = 0 if self.mode == PWM else table["pwm_limit"]
        if "goal_current" in table:
            table["goal_current"] = 0 if self.mode == CURRENT else table["current_limit"]

    # -- registers to motor ------------------------------------------------------------------------
    def _wrote(self, register: Register, value: int) -> None:
        name = register.name
        if name == "goal_position":
            self._goal_position(value)
        elif name == "goal_current" and self.mode == CURRENT:  # the one that comes hundreds of times a second
            self.motors.i_goal[self.k] = self.sign * value * self.model.current_unit
        elif name in ("goal_current", "goal_pwm", "goal_velocity", "moving_speed"):
            self._goals()
        elif name in ("id", "baud_rate", "protocol_type"):
            self.on_identity()
        elif name == "bus_watchdog":
            if value and self.table.goals_locked:
                self.table["bus_watchdog"] = 255  # only 0 ends the error
            else:
                self.table.goals_locked = False
            self.configure()
        elif name not in INERT and not name.startswith("indirect"):
            if name == "torque_enable" and value:
                if self.error & self.table["shutdown"]:
                    self.table["torque_enable"] = 0  # only a reboot ends a shutdown
                elif self.mode == POSITION:
                    self._count_one_turn()
                self.motors.z[self.k] = 0.0
                self.motors.q_ref[self.k] = self.motors.q[self.k]
                self.motors.v_ref[self.k] = 0.0
            elif name == "operating_mode":
                self._mode_changed()
            elif name == "torque_limit" and value:
                self.error = 0  # Protocol 1.0 knows no reboot: this ends its shutdown
            self.configure()

    def _mode_changed(self) -> None:
        """Gains, goals and profile of the new mode (e-manual, Operating Mode(11))."""
        table = self.table
        for name in (
            "velocity_i_gain",
            "velocity_p_gain",
            "position_d_gain",
            "position_i_gain",
            "position_p_gain",
            "feedforward_1st_gain",
            "feedforward_2nd_gain",
            "profile_velocity",
            "profile_acceleration",
        ):
            table[name] = table.registers[name].default
        self._reset_goals()
        if self.mode == POSITION:
            self._count_one_turn()
        self._goal_here()

    @property
    def mode(self) -> int:
        """Operating mode; under Protocol 1.0 as the angle limits imply it."""
        if self.two:
            return self.table["operating_mode"]
        if self.table["cw_angle_limit"] == self.table["ccw_angle_limit"] == 0:
            return VELOCITY
        return POSITION if self.table.position_limited else EXTENDED

    def _count_one_turn(self) -> None:
        """Count the horn's turns from this one on, and take up direction and homing offset."""
        self.sign = -1 if self.table.get("drive_mode") & 1 else 1
        self.turns = floor(self.sign * self.motors.q[self.k] / (2.0 * pi))
        self._set_offset()

    def _set_offset(self) -> None:
        self.offset = self.table.get("homing_offset") - round(self.turns * self.model.counts)

    def _goal_here(self) -> None:
        here = round(self.sign * self.motors.q[self.k] / self.per_count) + self.offset
        if "max_position_limit" in self.table and self.mode == POSITION:
            here = min(max(here, self.table["min_position_limit"]), self.table["max_position_limit"])
        self.table["goal_position"] = here
        self._goal_position(here)

    def _goal_position(self, value: int) -> None:
        m, k = self.motors, self.k
        m.q_goal[k] = goal = self.sign * (value - self.offset) * self.per_count
        if self.table.get("drive_mode") & 4:
            self._profile(abs(goal - m.q_ref[k]))
        if not m.profiled:
            m.q_ref[k] = goal

    def _goals(self) -> None:
        """Goals but the position's, and what they bound."""
        table, m, k, mode = self.table, self.motors, self.k, self.mode
        full = self.model.pwm_unit
        if not self.two:
            speed = table["moving_speed"]
            m.u_max[k] = min(table["torque_limit"], table["max_torque"]) / full if self.driving else 0.0
            m.i_max[k] = 2.0 * self.model.motor.stall_current if self.driving else 0.0
            m.commanded[k] = self.driving
            m.v_goal[k] = (-1 if speed & 1024 else 1) * (speed & 1023) * self.model.velocity_unit
            self._profile(0.0)
            if not m.profiled:
                m.v_ref[k] = m.v_goal[k] if mode == VELOCITY else 0.0
            return
        stopped = table.goals_locked
        m.commanded[k] = self.driving and not (stopped and mode in (CURRENT, PWM))
        pwm = table["goal_pwm"]
        m.u_goal[k] = self.sign * pwm / full if mode == PWM and not stopped else 0.0
        bound = table["pwm_limit"] if mode == PWM else min(abs(pwm), table["pwm_limit"])
        m.u_max[k] = bound / full if self.driving else 0.0
        m.v_goal[k] = (
            self.sign * table["goal_velocity"] * self.model.velocity_unit if mode == VELOCITY and not stopped else 0.0
        )
        if not m.profiled:
            m.v_ref[k] = m.v_goal[k]
        most = 2.0 * self.spec.model.motor.stall_current
        if "goal_current" in table:
            unit = self.model.current_unit
            most = table["current_limit"] * unit
            m.i_goal[k] = self.sign * table["goal_current"] * unit if mode == CURRENT and not stopped else 0.0
            if mode == CURRENT_POSITION:
                most = min(most, abs(table["goal_current"]) * unit)
        m.i_max[k] = most if self.driving else 0.0

    @property
    def driving(self) -> bool:
        """Whether the motor's bridge is on."""
        return bool(self.table["torque_enable"]) and not self.off_until and not self.error & self.table["shutdown"]

    def configure(self) -> None:
        """All that registers say, to the motor."""
        table, m, k, mode = self.table, self.motors, self.k, self.mode
        self._set_offset()
        table.torque_locks_eeprom = bool(table["torque_enable"]) if self.two else bool(table["lock"])
        m.k_p[k] = m.k_d[k] = m.k_ip[k] = m.k_iv[k] = m.r_i[k] = m.r_v[k] = 0.0
        m.velocity_mode[k] = mode == VELOCITY
        position, velocity = self._gains()
        if mode == CURRENT:
            m.r_i[k], m.r_v[k] = m.R[k] / m.V[k], m.k_e[k] / m.V[k]
        elif mode == VELOCITY:
            m.k_d[k], m.k_iv[k] = velocity
        elif mode != PWM:
            m.k_p[k], m.k_ip[k], m.k_d[k] = position
        if not (m.k_ip[k] or m.k_iv[k]):
            m.z[k] = 0.0
        self._goal_position(table["goal_position"])
        if not table.get("drive_mode") & 4:  # else the goal has done it
            self._profile(0.0)
        self._goals()
        m.refresh()

    def _gains(self) -> tuple[tuple, tuple]:
        """(P [1/rad], I [1/(rad s)], D [s/rad]) of the position and (P [s/rad], I [1/rad]) of the velocity loop, in duty."""
        table, rad = self.table, 1.0 / self.per_count / self.model.pwm_unit
        speed = 1.0 / self.model.velocity_unit / self.model.pwm_unit
        if self.two:
            position = (
                table["position_p_gain"] / 128.0 * rad,
                table["position_i_gain"] / 65536.0 * 1e3 * rad,
                table["position_d_gain"] / 16.0 * 1e-3 * rad,
            )
            return position, (
                table["velocity_p_gain"] / 128.0 * speed,
                table["velocity_i_gain"] / 65536.0 * 1e3 * speed,
            )
        if "p_gain" in table:
            position = (
                table["p_gain"] / 8.0 * rad,
                table["i_gain"] * 1000.0 / 2048.0 * rad,
                table["d_gain"] * 4e-3 * rad,
            )
        else:
            position = (1.0 / max(1, table["cw_compliance_slope"]) / self.per_count, 0.0, 0.0)
        return position, (100.0 / 128.0 * speed, 1920.0 / 65536.0 * 1e3 * speed)

    def _profile(self, distance: float) -> None:
        """Bounds of the trajectory; `distance` [rad] to the goal for profiles given by time (drive mode bit 2)."""
        table, m, k = self.table, self.motors, self.k
        if self.two:
            speed, acceleration = table["profile_velocity"], table["profile_acceleration"]
            if table["drive_mode"] & 4 and self.mode != VELOCITY:
                span, ramp = 1e-3 * speed, min(1e-3 * acceleration, 0.5e-3 * speed)
                v = distance / (span - ramp) if span else NO_LIMIT
                a = v / ramp if span and ramp else NO_LIMIT
            else:
                v = speed * self.model.velocity_unit if speed else NO_LIMIT
                a = acceleration * ACCELERATION_UNIT if acceleration and (speed or self.mode == VELOCITY) else NO_LIMIT
        else:
            speed = table["moving_speed"] & 1023
            v = speed * self.model.velocity_unit if speed else NO_LIMIT
            acceleration = table.get("goal_acceleration")
            a = acceleration * P1_ACCELERATION_UNIT if acceleration else NO_LIMIT
        changed = m.v_profile[k] != v or m.a_profile[k] != a
        m.v_profile[k], m.a_profile[k] = v or NO_LIMIT, a or NO_LIMIT
        if changed:
            m.refresh()

    # -- what watches over it ----------------------------------------------------------------------
    def watch(self, now: float) -> None:
        """Reboot's end, bus watchdog, errors. Every few milliseconds."""
        if self.off_until:
            if now >= self.off_until:
                self.boot(now)
            return
        self._watch_bus(now)
        self._watch_load(now)
        self.raise_errors()

    def _watch_bus(self, now: float) -> None:
        if not self.two or not self.table["torque_enable"] or self.table.goals_locked:
            return
        limit = self.table["bus_watchdog"]
        if limit and now - self.heard > 0.02 * limit:
            self.on_event(
                f"servo {self.id}: bus watchdog expired {1e3 * (now - self.heard):.0f} ms after the last packet"
            )
            self.table["bus_watchdog"] = 255  # -1
            self.table.goals_locked = True
            self._goal_here()
            self.motors.v_ref[self.k] = 0.0
            self.configure()

    def _watch_load(self, now: float) -> None:
        m, k = self.motors, self.k
        if abs(m.i[k]) * m.R[k] < OVERLOAD_SHARE * m.V[k]:
            self.overloaded_since = now
        elif now - self.overloaded_since > OVERLOAD_TIME:
            self.error |= OVERLOAD

    def raise_errors(self) -> None:
        """Hardware errors whose cause is there; those that are set to shut down take the torque away."""
        table, m, k = self.table, self.motors, self.k
        causes = self.causes  # what faults claim
        if m.temperature[k] > table["temperature_limit"]:
            causes |= OVERHEAT
        if not table["min_voltage_limit"] <= round(10.0 * m.V[k]) <= table["max_voltage_limit"]:
            causes |= VOLTAGE
        kept = self.error & (table["shutdown"] | OVERLOAD)
        error = causes | kept
        if error & ~self.error:
            self.on_event(f"servo {self.id}: hardware error {error:#04x}")
        if error != self.error or error & table["shutdown"]:
            self.error = error
            self._show_error()

    def _show_error(self) -> None:
        table = self.table
        down = self.error & table["shutdown"]
        if self.two:
            table["hardware_error_status"] = self.error
            if down and table["torque_enable"]:
                table["torque_enable"] = 0
                self.configure()
        elif down and table["torque_limit"]:
            table["torque_limit"] = 0  # the output becomes 0 %
            self.configure()

    # -- present values ----------------------------------------------------------------------------
    def publish(
        self,
        position: int,
        velocity: int,
        effort: int,
        pwm: int,
        position_ref: int,
        velocity_ref: int,
        voltage: int,
        temperature: int,
        *,
        now: float,
    ) -> None:
        """Present values into the table, in the model's units."""
        table = self.table
        if self.causes & ENCODER:
            position = self.frozen
        self.frozen = position
        if self.two:
            goal = table["goal_position"]
            running = self.motors.profiled and position_ref != goal and self.positions
            moving = self._moving(velocity, running)
            PRESENT_X.pack_into(
                table.memory,
                120,
                int(now * 1e3) & 0x7FFF,
                moving,
                running << 1 | (abs(goal - position) <= 20),
                pwm,
                effort,
                velocity,
                position,
                velocity_ref,
                position_ref,
                voltage,
                temperature,
            )
        else:
            PRESENT_P1.pack_into(
                table.memory,
                36,
                position & 0xFFFF,
                _sign_bit(velocity),
                _sign_bit(pwm),
                voltage,
                temperature,
                self.registered is not None,
                abs(velocity) > 2,
            )


def _sign_bit(value: int) -> int:
    """Protocol 1.0 speed and load: magnitude, with bit 10 for clockwise."""
    return min(abs(value), 1023) | (1024 if value < 0 else 0)
