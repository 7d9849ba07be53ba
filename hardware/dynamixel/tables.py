"""Control tables of the servos known here, and what their numbers mean in SI units.

Addresses, sizes and units: ROBOTIS e-manual, pages of the models named. The XL330 has 20 indirect slots with
data at 208; the maker's own `.model` file says 224, the e-manual and the servo disagree with it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

__all__ = [
    "BAUD_RATES",
    "CURRENT",
    "CURRENT_BASED_POSITION",
    "EXTENDED_POSITION",
    "MODELS",
    "POSITION",
    "PWM",
    "RPM",
    "VELOCITY",
    "Indirect",
    "Item",
    "Model",
    "Motor",
    "model_by_number",
    "operating_mode",
]

RPM = 2.0 * math.pi / 60.0  # [rad/s]

#: operating mode: what a goal means to the servo (e-manual, "Operating Mode(11)")
CURRENT, VELOCITY, POSITION, EXTENDED_POSITION, CURRENT_BASED_POSITION, PWM = 0, 1, 3, 4, 5, 16
_MODES = {
    "current": CURRENT,
    "velocity": VELOCITY,
    "position": POSITION,
    "extended_position": EXTENDED_POSITION,
    "current_based_position": CURRENT_BASED_POSITION,
    "pwm": PWM,
}


def operating_mode(name: str) -> int:
    """The number of a mode: "current", "velocity", "position", "extended_position", "current_based_position", "pwm"."""
    return _MODES[name]


@dataclass(frozen=True)
class Item:
    """One entry of a control table.

    Attributes:
        signed: two's complement.
        direction_bit: sign and magnitude instead, negative (clockwise) if this bit is set; Protocol 1.0's way.
        eeprom: kept without power; writable only while torque is off.
    """

    address: int
    size: int
    signed: bool = False
    direction_bit: int | None = None
    eeprom: bool = False

    def pack(self, value: int) -> bytes:
        """Bytes of a value; ValueError if it does not fit."""
        if self.direction_bit is not None:
            value = abs(value) | (value < 0) << self.direction_bit
        try:
            return value.to_bytes(self.size, "little", signed=self.signed)
        except OverflowError:
            raise ValueError(
                f"{value} does not fit into {self.size} bytes ({'signed' if self.signed else 'unsigned'})"
            ) from None

    def unpack(self, data: bytes) -> int:
        """The value in bytes."""
        value = int.from_bytes(data[: self.size], "little", signed=self.signed)
        if self.direction_bit is not None:
            magnitude = value & (1 << self.direction_bit) - 1
            return -magnitude if value >> self.direction_bit & 1 else magnitude
        return value


@dataclass(frozen=True)
class Indirect:
    """A window of `slots` bytes at `data`, each mapped by two bytes at `address` to any other of the table."""

    address: int
    data: int
    slots: int


@dataclass(frozen=True)
class Motor:
    """Of a data sheet's stall and no-load points, referred to the output shaft.

    u V = R i + k_e omega,  tau = k_t i
    """

    volts: float  # of both points [V]
    stall_torque: float  # [N m]
    stall_current: float  # [A]
    no_load: float  # [rev/min]

    @property
    def resistance(self) -> float:
        """[Ohm]"""
        return self.volts / self.stall_current

    @property
    def torque_constant(self) -> float:
        """[N m/A]"""
        return self.stall_torque / self.stall_current

    @property
    def back_emf(self) -> float:
        """[V s/rad]"""
        return self.volts / (self.no_load * RPM)


@dataclass(frozen=True)
class Model:
    """One servo model.

    Attributes:
        number: answered to a ping.
        counts_per_turn, velocity_unit [rad/s], current_unit [A] or None (no sensing), acceleration_unit [rad/s^2]: of one count.
        pwm_unit: duty of one count.
        modes: operating modes it knows.
    """

    name: str
    number: int
    protocol: float
    items: Mapping[str, Item] = field(repr=False)
    motor: Motor
    modes: tuple[int, ...]
    indirect: Indirect | None
    current_unit: float | None
    velocity_unit: float
    counts_per_turn: float = 4096.0
    zero_count: int = 2048
    acceleration_unit: float = 214.577 * RPM / 60.0
    pwm_unit: float = 1.0 / 885.0
    voltage_unit: float = 0.1
    bulk_read: bool = True

    @property
    def count(self) -> float:
        """Angle of one position count [rad]."""
        return 2.0 * math.pi / self.counts_per_turn


def _table(rows: str, ram: int) -> Mapping[str, Item]:
    """`address name size [signed] [directionBIT]` per line."""
    items = {}
    for row in rows.strip().splitlines():
        address, name, size, *flags = row.split()
        direction = next((int(flag.removeprefix("direction")) for flag in flags if flag.startswith("direction")), None)
        items[name] = Item(int(address), int(size), "signed" in flags, direction, int(address) < ram)
    return MappingProxyType(items)


def _without(items: Mapping[str, Item], *names: str) -> Mapping[str, Item]:
    return MappingProxyType({name: item for name, item in items.items() if name not in names})


_X_ROWS = """
0 model_number 2
2 model_information 4
6 firmware_version 1
7 id 1
8 baud_rate 1
9 return_delay_time 1
10 drive_mode 1
11 operating_mode 1
12 secondary_id 1
13 protocol_type 1
20 homing_offset 4 signed
24 moving_threshold 4
31 temperature_limit 1
32 max_voltage_limit 2
34 min_voltage_limit 2
36 pwm_limit 2
38 current_limit 2
44 velocity_limit 4
48 max_position_limit 4
52 min_position_limit 4
60 startup_configuration 1
63 shutdown 1
64 torque_enable 1
65 led 1
68 status_return_level 1
69 registered_instruction 1
70 hardware_error_status 1
76 velocity_i_gain 2
78 velocity_p_gain 2
80 position_d_gain 2
82 position_i_gain 2
84 position_p_gain 2
88 feedforward_2nd_gain 2
90 feedforward_1st_gain 2
98 bus_watchdog 1 signed
100 goal_pwm 2 signed
102 goal_current 2 signed
104 goal_velocity 4 signed
108 profile_acceleration 4
112 profile_velocity 4
116 goal_position 4 signed
120 realtime_tick 2
122 moving 1
123 moving_status 1
124 present_pwm 2 signed
126 present_current 2 signed
128 present_velocity 4 signed
132 present_position 4 signed
136 velocity_trajectory 4 signed
140 position_trajectory 4 signed
144 present_input_voltage 2
146 present_temperature 1
"""
_NO_SENSING = "current_limit", "goal_current", "present_current"
_LOAD_ROW = "126 present_load 2 signed\n"
_X = _table(_X_ROWS, ram=64)
_X_LOAD = _without(_table(_X_ROWS + _LOAD_ROW, ram=64), *_NO_SENSING)
_MX2_ROWS = _X_ROWS + "40 acceleration_limit 4\n"
_MX2 = _table(_MX2_ROWS, ram=64)
_MX2_LOAD = _without(_table(_MX2_ROWS + _LOAD_ROW, ram=64), *_NO_SENSING)

_MX1_ROWS = """
0 model_number 2
2 firmware_version 1
3 id 1
4 baud_rate 1
5 return_delay_time 1
6 cw_angle_limit 2
8 ccw_angle_limit 2
11 temperature_limit 1
12 min_voltage_limit 1
13 max_voltage_limit 1
14 max_torque 2
16 status_return_level 1
17 alarm_led 1
18 shutdown 1
20 multi_turn_offset 2 signed
22 resolution_divider 1
24 torque_enable 1
25 led 1
26 position_d_gain 1
27 position_i_gain 1
28 position_p_gain 1
30 goal_position 2
32 goal_velocity 2 direction10
34 torque_limit 2
36 present_position 2
38 present_velocity 2 direction10
40 present_load 2 direction10
42 present_input_voltage 1
43 present_temperature 1
44 registered_instruction 1
46 moving 1
47 lock 1
48 punch 2
50 realtime_tick 2
73 profile_acceleration 1
"""
_MX1 = _table(_MX1_ROWS, ram=24)
_MX1_CURRENT = _table(
    _MX1_ROWS + "68 present_current 2\n70 torque_control_mode_enable 1\n71 goal_torque 2 direction10\n", ram=24
)
_AX = _without(
    _table(
        _MX1_ROWS + "26 cw_compliance_margin 1\n27 ccw_compliance_margin 1\n28 cw_compliance_slope 1\n"
        "29 ccw_compliance_slope 1\n",
        ram=24,
    ),
    "multi_turn_offset",
    "resolution_divider",
    "position_d_gain",
    "position_i_gain",
    "position_p_gain",
    "realtime_tick",
    "profile_acceleration",
)

_SLOTS_28 = Indirect(168, 224, 28)
_SLOTS_20 = Indirect(168, 208, 20)
_ALL = (CURRENT, VELOCITY, POSITION, EXTENDED_POSITION, CURRENT_BASED_POSITION, PWM)
_NO_CURRENT = (VELOCITY, POSITION, EXTENDED_POSITION, PWM)
_X_VELOCITY = 0.229 * RPM


def _x(
    name: str,
    number: int,
    motor: tuple[float, ...],
    current: float | None = 2.69e-3,
    items: Mapping[str, Item] = _X,
    indirect: Indirect = _SLOTS_28,
) -> Model:
    return Model(
        name, number, 2.0, items, Motor(*motor), _ALL if current else _NO_CURRENT, indirect, current, _X_VELOCITY
    )


def _mx1(name: str, number: int, motor: tuple[float, ...], items: Mapping[str, Item] = _MX1) -> Model:
    return Model(
        name,
        number,
        1.0,
        items,
        Motor(*motor),
        (VELOCITY, POSITION),
        None,
        None,
        0.114 * RPM,
        acceleration_unit=math.radians(8.583),
    )


def _ax(name: str, number: int, motor: tuple[float, ...]) -> Model:
    return Model(
        name,
        number,
        1.0,
        _AX,
        Motor(*motor),
        (VELOCITY, POSITION),
        None,
        None,
        0.111 * RPM,
        counts_per_turn=1024.0 * 360.0 / 300.0,
        zero_count=512,
        bulk_read=False,
    )


#: by name; Motor points at the voltage the data sheet recommends
MODELS: dict[str, Model] = {
    model.name: model
    for model in (
        _x("XM430-W350", 1020, (12.0, 4.1, 2.3, 46.0)),
        _x("XM430-W210", 1030, (12.0, 3.0, 2.3, 77.0)),
        _x("XH430-W350", 1000, (12.0, 3.4, 1.3, 30.0)),
        _x("XH430-W210", 1010, (12.0, 2.5, 1.3, 50.0)),
        _x("XM540-W270", 1120, (12.0, 10.6, 4.4, 30.0)),
        _x("XM540-W150", 1130, (12.0, 7.3, 4.4, 53.0)),
        _x("XL430-W250", 1060, (11.1, 1.4, 1.3, 57.0), None, _X_LOAD),
        _x("XL330-M288", 1200, (5.0, 0.52, 1.47, 103.0), 1e-3, _X, _SLOTS_20),
        _x("XL330-M077", 1190, (5.0, 0.215, 1.47, 383.0), 1e-3, _X, _SLOTS_20),
        _x("MX-28(2.0)", 30, (12.0, 2.5, 1.4, 55.0), None, _MX2_LOAD),
        _x("MX-64(2.0)", 311, (12.0, 6.0, 4.1, 63.0), 3.36e-3, _MX2),
        _x("MX-106(2.0)", 321, (12.0, 8.4, 5.2, 45.0), 3.36e-3, _MX2),
        _mx1("MX-28", 29, (12.0, 2.5, 1.4, 55.0)),
        _mx1("MX-64", 310, (12.0, 6.0, 4.1, 63.0), _MX1_CURRENT),
        _mx1("MX-106", 320, (12.0, 8.4, 5.2, 45.0), _MX1_CURRENT),
        _ax("AX-12A", 12, (12.0, 1.5, 1.5, 59.0)),
        _ax("AX-18A", 18, (12.0, 1.8, 2.2, 97.0)),
    )
}


def model_by_number(number: int) -> Model | None:
    """The model that answers a ping with this number, if it is known here."""
    return next((model for model in MODELS.values() if model.number == number), None)


#: rates worth trying in a scan, the likely ones first; Protocol 1.0 has 2,000,000 / (code + 1), Protocol 2.0 all but 400,000 and 500,000
BAUD_RATES = (57_600, 1_000_000, 115_200, 2_000_000, 3_000_000, 4_000_000, 9_600, 4_500_000, 500_000, 400_000)
