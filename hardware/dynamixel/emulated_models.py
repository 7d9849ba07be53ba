"""What the emulated servos are: control tables and motors of each model, as data.

Sources: ROBOTIS e-manual, one page per model (control table, specifications). Motor constants come from
the data sheet's stall and no-load points at the rated voltage: R = V / i_stall, k_t = tau_stall / i_stall,
k_e = V / omega_no_load. So k_t k_e is not that of an ideal machine: the gear's losses are in k_t.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import pi
from typing import Any, NamedTuple

__all__ = ["MODELS", "Indirect", "Model", "Motor", "Register", "find_model"]

RPM = 2.0 * pi / 60.0
BAUD_X = {0: 9600, 1: 57600, 2: 115200, 3: 1_000_000, 4: 2_000_000, 5: 3_000_000, 6: 4_000_000, 7: 4_500_000}
BAUD_MX = {v: round(2_000_000 / (v + 1)) for v in range(250)} | {250: 2_250_000, 251: 2_500_000, 252: 3_000_000}


class Register(NamedTuple):
    """One item of a control table.

    `low`, `high`: fixed bounds of a write (Data Range Error beyond them). `limit`: what bounds it further
    (Data Limit Error): ("low register" or None for minus the other, "high register"). `eeprom`: kept without
    power, locked while the torque is on.
    """

    name: str
    address: int
    size: int
    default: int = 0
    low: int = 0
    high: int = 0
    writable: bool = True
    eeprom: bool = False
    limit: tuple[str | None, str] | None = None

    @property
    def signed(self) -> bool:
        return self.low < 0


class Indirect(NamedTuple):
    """`slots` pointers of two bytes from `address` on, and the bytes they stand for from `data` on."""

    address: int
    data: int
    slots: int


@dataclass(frozen=True)
class Motor:
    """Of the geared motor, at its horn: V in volt, R in ohm, k_t in N m/A, k_e in V s/rad, J in kg m2.

    `friction` [N m] and `viscous` [N m s/rad] are assumptions: small enough that the no-load speed stays
    within 3 % of the data sheet's. So is `inertia`, the rotor's seen through the gear, and the heat model:
    `heat_resistance` [K/W] winding to air, `heat_capacity` [J/K].
    """

    volts: float
    stall_current: float
    stall_torque: float
    no_load_rpm: float
    inertia: float = 0.012
    friction: float = 0.04
    viscous: float = 0.002
    heat_resistance: float = 13.0
    heat_capacity: float = 40.0

    @property
    def resistance(self) -> float:
        return self.volts / self.stall_current

    @property
    def k_t(self) -> float:
        return self.stall_torque / self.stall_current

    @property
    def k_e(self) -> float:
        return self.volts / (self.no_load_rpm * RPM)


@dataclass(frozen=True)
class Model:
    """One model: its table and its units.

    Attributes:
        protocol: 1 or 2.
        counts: position counts per turn; the positions end at `travel` (AX: 300 degrees).
        velocity_unit: rad/s per count. current_unit: A per count, 0 without current sensing (126 is then the load).
        pwm_unit: counts of 100 % PWM. gain units: see emulated_servo.py.
        modes: operating modes it has (Protocol 2.0). bulk_read: whether it knows that instruction (AX does not).
    """

    name: str
    number: int
    motor: Motor
    registers: tuple[Register, ...]
    protocol: int = 2
    indirect: tuple[Indirect, ...] = ()
    bauds: dict[int, int] = field(default_factory=lambda: BAUD_X)
    counts: float = 4096
    travel: int = 4095
    velocity_unit: float = 0.229 * RPM
    current_unit: float = 0.0
    pwm_unit: int = 885
    firmware: int = 45
    modes: tuple[int, ...] = (1, 3, 4, 16)
    bulk_read: bool = True

    @property
    def present(self) -> tuple[int, int]:
        """[from, to) of the present values."""
        return (120, 147) if self.protocol == 2 else (36, 47)

    @property
    def size(self) -> int:
        """Bytes of the table."""
        ends = [r.address + r.size for r in self.registers] + [i.data + i.slots for i in self.indirect]
        return max(ends)


def _eeprom(name: str, address: int, size: int, default: int, low: int, high: int, **more: Any) -> Register:
    return Register(name, address, size, default, low, high, eeprom=True, **more)


def _read_only(
    name: str, address: int, size: int, default: int = 0, signed: bool = False, eeprom: bool = False
) -> Register:
    return Register(name, address, size, default, -1 if signed else 0, 0, writable=False, eeprom=eeprom)


def _x_table(
    number: int,
    *,
    firmware: int = 45,
    temperature: int = 80,
    volts: tuple[int, int, int, int] = (95, 160, 95, 160),
    velocity: int = 200,
    fastest: int = 1023,
    current: int | None = None,
    bauds: int = 7,
    gains: tuple[int, int, int, int, int] = (1920, 100, 0, 0, 800),
    shutdown: int = 52,
    mode_max: int = 16,
    homing: int = 1_044_479,
) -> tuple[Register, ...]:
    """The table that X and MX(2.0) share. volts: (lowest, highest settable, default min, default max) [0.1 V];
    gains: velocity I, P, position D, I, P; current: default and largest limit, None without current sensing."""
    low_v, high_v, min_v, max_v = volts
    table = [
        _read_only("model_number", 0, 2, number, eeprom=True),
        _read_only("model_information", 2, 4, eeprom=True),
        _read_only("firmware_version", 6, 1, firmware, eeprom=True),
        _eeprom("id", 7, 1, 1, 0, 252),
        _eeprom("baud_rate", 8, 1, 1, 0, bauds),
        _eeprom("return_delay_time", 9, 1, 250, 0, 254),
        _eeprom("drive_mode", 10, 1, 0, 0, 5),
        _eeprom("operating_mode", 11, 1, 3, 0, mode_max),
        _eeprom("secondary_id", 12, 1, 255, 0, 255),
        _eeprom("protocol_type", 13, 1, 2, 1, 2),
        _eeprom("homing_offset", 20, 4, 0, -homing, homing),
        _eeprom("moving_threshold", 24, 4, 10, 0, 1023),
        _eeprom("temperature_limit", 31, 1, temperature, 0, 100),
        _eeprom("max_voltage_limit", 32, 2, max_v, low_v, high_v),
        _eeprom("min_voltage_limit", 34, 2, min_v, low_v, high_v),
        _eeprom("pwm_limit", 36, 2, 885, 0, 885),
        _eeprom("velocity_limit", 44, 4, velocity, 0, fastest),
        _eeprom("max_position_limit", 48, 4, 4095, 0, 4095),
        _eeprom("min_position_limit", 52, 4, 0, 0, 4095),
        _eeprom("startup_configuration", 60, 1, 0, 0, 3),
        _eeprom("shutdown", 63, 1, shutdown, 0, 63),
        Register("torque_enable", 64, 1, 0, 0, 1),
        Register("led", 65, 1, 0, 0, 1),
        Register("status_return_level", 68, 1, 2, 0, 2),
        _read_only("registered_instruction", 69, 1),
        _read_only("hardware_error_status", 70, 1),
        Register("velocity_i_gain", 76, 2, gains[0], 0, 16383),
        Register("velocity_p_gain", 78, 2, gains[1], 0, 16383),
        Register("position_d_gain", 80, 2, gains[2], 0, 16383),
        Register("position_i_gain", 82, 2, gains[3], 0, 16383),
        Register("position_p_gain", 84, 2, gains[4], 0, 16383),
        Register("feedforward_2nd_gain", 88, 2, 0, 0, 16383),
        Register("feedforward_1st_gain", 90, 2, 0, 0, 16383),
        Register("bus_watchdog", 98, 1, 0, 0, 127),
        Register("goal_pwm", 100, 2, 885, -885, 885, limit=(None, "pwm_limit")),
        Register("goal_velocity", 104, 4, 0, -fastest, fastest, limit=(None, "velocity_limit")),
        Register("profile_acceleration", 108, 4, 0, 0, 32767),
        Register("profile_velocity", 112, 4, 0, 0, 32767),
        Register("goal_position", 116, 4, 0, -1_048_575, 1_048_575, limit=("min_position_limit", "max_position_limit")),
        _read_only("realtime_tick", 120, 2),
        _read_only("moving", 122, 1),
        _read_only("moving_status", 123, 1),
        _read_only("present_pwm", 124, 2, signed=True),
        _read_only("present_current" if current else "present_load", 126, 2, signed=True),
        _read_only("present_velocity", 128, 4, signed=True),
        _read_only("present_position", 132, 4, signed=True),
        _read_only("velocity_trajectory", 136, 4, signed=True),
        _read_only("position_trajectory", 140, 4, signed=True),
        _read_only("present_input_voltage", 144, 2),
        _read_only("present_temperature", 146, 1),
        _read_only("backup_ready", 147, 1),
    ]
    if current:
        table += [
            _eeprom("current_limit", 38, 2, current, 0, current),
            Register("goal_current", 102, 2, current, -current, current, limit=(None, "current_limit")),
        ]
    return tuple(sorted(table, key=lambda register: register.address))


INDIRECT_X = (Indirect(168, 224, 28), Indirect(578, 634, 28))
ALL_MODES = (0, 1, 3, 4, 5, 16)


def _x(
    name: str,
    number: int,
    motor: Motor,
    *,
    current_unit: float = 0.0,
    indirect: tuple[Indirect, ...] = INDIRECT_X,
    **table: Any,
) -> Model:
    modes = ALL_MODES if current_unit else (1, 3, 4, 16)
    return Model(
        name, number, motor, _x_table(number, **table), indirect=indirect, current_unit=current_unit, modes=modes
    )


def _p1_table(
    number: int,
    *,
    firmware: int,
    baud: int,
    angle: int,
    volts: int,
    gains: Sequence[Register],
    goal_range: tuple[int, int],
    tail: Sequence[Register],
    resolution: Sequence[Register],
    temperature: int = 80,
) -> tuple[Register, ...]:
    """The table that AX and MX share under Protocol 1.0."""
    return tuple(
        sorted(
            [
                _read_only("model_number", 0, 2, number, eeprom=True),
                _read_only("firmware_version", 2, 1, firmware, eeprom=True),
                _eeprom("id", 3, 1, 1, 0, 252),
                _eeprom("baud_rate", 4, 1, baud, 0, 254),
                _eeprom("return_delay_time", 5, 1, 250, 0, 254),
                _eeprom("cw_angle_limit", 6, 2, 0, 0, angle),
                _eeprom("ccw_angle_limit", 8, 2, angle, 0, angle),
                _eeprom("temperature_limit", 11, 1, temperature, 0, 99),
                _eeprom("min_voltage_limit", 12, 1, 60, 50, 160),
                _eeprom("max_voltage_limit", 13, 1, volts, 50, 160),
                _eeprom("max_torque", 14, 2, 1023, 0, 1023),
                _eeprom("status_return_level", 16, 1, 2, 0, 2),
                _eeprom("alarm_led", 17, 1, 36, 0, 127),
                _eeprom("shutdown", 18, 1, 36, 0, 127),
                *resolution,
                Register("torque_enable", 24, 1, 0, 0, 1),
                Register("led", 25, 1, 0, 0, 1),
                *gains,
                Register("goal_position", 30, 2, 0, *goal_range, limit=("cw_angle_limit", "ccw_angle_limit")),
                Register("moving_speed", 32, 2, 0, 0, 2047),
                Register("torque_limit", 34, 2, 1023, 0, 1023),
                _read_only("present_position", 36, 2, signed=goal_range[0] < 0),
                _read_only("present_speed", 38, 2),
                _read_only("present_load", 40, 2),
                _read_only("present_voltage", 42, 1),
                _read_only("present_temperature", 43, 1),
                _read_only("registered", 44, 1),
                _read_only("moving", 46, 1),
                Register("lock", 47, 1, 0, 0, 1),
                *tail,
            ],
            key=lambda register: register.address,
        )
    )


MX28_P1 = _p1_table(
    29,
    firmware=40,
    baud=34,
    angle=4095,
    volts=160,
    goal_range=(-28672, 28672),
    resolution=[_eeprom("multi_turn_offset", 20, 2, 0, -24576, 24576), _eeprom("resolution_divider", 22, 1, 1, 1, 4)],
    gains=[
        Register("d_gain", 26, 1, 0, 0, 254),
        Register("i_gain", 27, 1, 0, 0, 254),
        Register("p_gain", 28, 1, 32, 0, 254),
    ],
    tail=[
        Register("punch", 48, 2, 0, 0, 1023),
        _read_only("realtime_tick", 50, 2),
        Register("goal_acceleration", 73, 1, 0, 0, 254),
    ],
)

AX_GAINS = [
    Register("cw_compliance_margin", 26, 1, 1, 0, 255),
    Register("ccw_compliance_margin", 27, 1, 1, 0, 255),
    Register("cw_compliance_slope", 28, 1, 32, 0, 255),
    Register("ccw_compliance_slope", 29, 1, 32, 0, 255),
]


def _ax(name: str, number: int, motor: Motor, temperature: int) -> Model:
    table = _p1_table(
        number,
        firmware=24,
        baud=1,
        angle=1023,
        volts=140,
        goal_range=(0, 1023),
        temperature=temperature,
        resolution=[],
        gains=AX_GAINS,
        tail=[Register("punch", 48, 2, 32, 0, 1023)],
    )
    return Model(
        name,
        number,
        motor,
        table,
        protocol=1,
        bauds=BAUD_MX,
        counts=1024 * 360 / 300,
        travel=1023,
        velocity_unit=0.111 * RPM,
        pwm_unit=1023,
        firmware=24,
        modes=(),
        bulk_read=False,
    )


MODELS = {
    model.name: model
    for model in (
        _x("XM430-W350", 1020, Motor(12.0, 2.3, 4.1, 46.0), current_unit=2.69e-3, current=1193),
        _x(
            "XM430-W210",
            1030,
            Motor(12.0, 2.3, 3.0, 77.0, inertia=0.0045),
            current_unit=2.69e-3,
            current=1193,
            velocity=330,
        ),
        _x(
            "XH430-W350",
            1000,
            Motor(12.0, 1.3, 3.4, 30.0),
            current_unit=2.69e-3,
            current=648,
            velocity=130,
            gains=(1920, 100, 0, 0, 900),
        ),
        _x(
            "XH430-W210",
            1010,
            Motor(12.0, 1.3, 2.5, 50.0, inertia=0.0045, friction=0.03),
            current_unit=2.69e-3,
            current=648,
            velocity=210,
            gains=(1920, 100, 0, 0, 900),
        ),
        _x(
            "XM540-W270",
            1120,
            Motor(12.0, 4.4, 10.6, 30.0, inertia=0.04, friction=0.1),
            current_unit=2.69e-3,
            current=2047,
            velocity=128,
        ),
        _x(
            "XM540-W150",
            1130,
            Motor(12.0, 4.4, 7.3, 53.0, inertia=0.012, friction=0.07),
            current_unit=2.69e-3,
            current=2047,
            velocity=230,
        ),
        _x(
            "XL430-W250",
            1060,
            Motor(12.0, 1.4, 1.5, 61.0, inertia=0.006, friction=0.015),
            temperature=72,
            volts=(60, 140, 60, 140),
            velocity=265,
            gains=(1000, 100, 4000, 0, 640),
        ),
        # 20 slots with their data at 208, as the e-manual says; the maker's .model file disagrees and is wrong.
        _x(
            "XL330-M288",
            1200,
            Motor(5.0, 1.47, 0.52, 103.0, inertia=0.0015, friction=0.005, viscous=0.0003),
            temperature=70,
            volts=(31, 70, 35, 70),
            velocity=445,
            current=1750,
            current_unit=1e-3,
            gains=(1600, 180, 0, 0, 400),
            shutdown=53,
            indirect=(Indirect(168, 208, 20),),
            bauds=6,
        ),
        _x(
            "XL330-M077",
            1190,
            Motor(5.0, 1.47, 0.215, 383.0, inertia=0.0002, friction=0.002, viscous=2e-5),
            temperature=70,
            volts=(31, 70, 35, 70),
            velocity=1620,
            fastest=2047,
            current=1750,
            current_unit=1e-3,
            gains=(400, 40, 0, 400, 400),
            shutdown=53,
            indirect=(Indirect(168, 208, 20),),
            bauds=6,
        ),
        _x(
            "MX-28(2.0)",
            30,
            Motor(12.0, 1.4, 2.5, 55.0, inertia=0.006, friction=0.03),
            velocity=230,
            gains=(1920, 100, 0, 0, 850),
        ),
        _x(
            "MX-64(2.0)",
            311,
            Motor(12.0, 4.1, 6.0, 63.0, inertia=0.008, friction=0.05),
            velocity=285,
            current=1941,
            current_unit=3.36e-3,
            gains=(1920, 100, 0, 0, 850),
        ),
        _x(
            "MX-106(2.0)",
            321,
            Motor(12.0, 5.2, 8.4, 45.0, inertia=0.02, friction=0.07),
            velocity=210,
            current=2047,
            current_unit=3.36e-3,
            gains=(1920, 100, 0, 0, 850),
        ),
        Model(
            "MX-28",
            29,
            Motor(12.0, 1.4, 2.5, 55.0, inertia=0.006, friction=0.03),
            MX28_P1,
            protocol=1,
            bauds=BAUD_MX,
            velocity_unit=0.114 * RPM,
            pwm_unit=1023,
            firmware=40,
            modes=(),
        ),
        _ax("AX-12A", 12, Motor(12.0, 1.5, 1.5, 59.0, inertia=0.004, friction=0.02), 70),
        _ax("AX-18A", 18, Motor(12.0, 2.2, 1.8, 97.0, inertia=0.003, friction=0.02), 75),
    )
}


def find_model(name: str) -> Model:
    """The model of that name, however it is spelt: XM430-W350, xm430_w350.

    Raises:
        ValueError: there is none; the text lists those there are.
    """

    def plain(text: str) -> str:
        return "".join(letter for letter in text.lower() if letter.isalnum())

    for known, model in MODELS.items():
        if plain(known) == plain(str(name)):
            return model
    raise ValueError(f"no emulated servo model '{name}'; there are {', '.join(MODELS)}")
