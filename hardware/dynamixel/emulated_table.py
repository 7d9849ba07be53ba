"""The control table of one emulated servo: bytes, what may be written to them, and what answers if not.

Source: ROBOTIS e-manual, Protocol 2.0 (error numbers) and each model's control table.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter

from hardware.dynamixel.emulated_models import Model, Register

__all__ = ["ACCESS", "CRC", "INSTRUCTION", "LENGTH", "LIMIT", "RANGE", "RESULT", "ControlTable", "TableError"]

RESULT, INSTRUCTION, CRC, RANGE, LENGTH, LIMIT, ACCESS = range(1, 8)
NAMES = {
    RESULT: "result fail",
    INSTRUCTION: "instruction",
    CRC: "CRC",
    RANGE: "data range",
    LENGTH: "data length",
    LIMIT: "data limit",
    ACCESS: "access",
}


class TableError(Exception):
    """A read or write that the servo refuses. `number`: as in a Protocol 2.0 status packet."""

    def __init__(self, number: int, register: Register | None = None) -> None:
        super().__init__(f"{NAMES[number]} error" + (f" at {register.name}" if register else ""))
        self.number, self.register = number, register


class ControlTable:
    """Registers of one servo.

    Attributes:
        memory: the bytes.
        torque_locks_eeprom: whether EEPROM registers are read-only now; the servo sets it.
        goals_locked: whether goals are refused (bus watchdog expired); the servo sets it.
    """

    GOALS = frozenset({"goal_pwm", "goal_current", "goal_velocity", "goal_position"})

    def __init__(self, model: Model) -> None:
        self.model = model
        self.registers = {register.name: register for register in model.registers}
        self._at = {register.address + i: register for register in model.registers for i in range(register.size)}
        self._pointers: dict[int, int] = {}  # address of an indirect data byte -> address of its pointer
        for block in model.indirect:
            for i in range(block.slots):
                pointer = Register(
                    f"indirect_address_{len(self._pointers) + 1}",
                    block.address + 2 * i,
                    2,
                    block.data + i,
                    64,
                    model.size - 1,
                )
                self.registers[pointer.name] = pointer
                self._at |= {pointer.address: pointer, pointer.address + 1: pointer}
                self._pointers[block.data + i] = pointer.address
        self.memory = bytearray(model.size)
        self.torque_locks_eeprom = False
        self.goals_locked = False
        self._values: dict[str, int] = {}  # by name, without the present values: those are packed into memory
        self._plans: dict[tuple[int, int], tuple] = {}
        self._gathers: dict[tuple[int, int], tuple] = {}
        for register in self.registers.values():
            self._store(register, register.default)

    def reset_ram(self) -> None:
        """Volatile registers as after power-up; indirect addresses are among them."""
        for register in self.registers.values():
            if not register.eeprom:
                self._store(register, register.default)
        self.forget_plans()

    def reset_eeprom(self, keep: tuple[str, ...] = ()) -> None:
        """Factory values, except for the registers in `keep`."""
        for register in self.registers.values():
            if register.eeprom and register.name not in keep:
                self._store(register, register.default)

    def forget_plans(self) -> None:
        """Indirect addresses have changed."""
        self._plans.clear()
        self._gathers.clear()

    # -- by name -----------------------------------------------------------------------------------
    def __contains__(self, name: str) -> bool:
        return name in self.registers

    def __getitem__(self, name: str) -> int:
        return self._values[name]

    def __setitem__(self, name: str, value: int) -> None:
        self._store(self.registers[name], value)

    def get(self, name: str, default: int = 0) -> int:
        """The register's value, `default` if this model has none of that name."""
        return self._values.get(name, default)

    def _store(self, register: Register, value: int) -> None:
        size = register.size
        self._values[register.name] = int(value)
        self.memory[register.address : register.address + size] = (int(value) & (1 << 8 * size) - 1).to_bytes(
            size, "little"
        )

    # -- by address, as packets ask ----------------------------------------------------------------
    def read(self, address: int, length: int, refresh: Callable[[], None]) -> bytes:
        """Bytes from `address` on; gaps between registers read as zero.

        Args:
            refresh: called first if present values are among them, pointers followed.

        Raises:
            TableError: nothing is defined at `address`, or the table ends before.
        """
        known = self._gathers.get((address, length))
        if known is None:
            known = self._gathers[address, length] = self._gather(address, length)
        gather, present = known
        if present:
            refresh()
        if gather is None:
            return bytes(self.memory[address : address + length])
        return bytes(gather(self.memory))

    def _gather(self, address: int, length: int) -> tuple:
        """How to collect the bytes of a read (None: they lie in a row), and whether present values are among them."""
        if (
            length < 1
            or address + length > len(self.memory)
            or address not in self._at
            and address not in self._pointers
        ):
            raise TableError(ACCESS)
        sources = tuple(self._follow(a) for a in range(address, address + length))
        low, high = self.model.present
        present = any(low <= source < high for source in sources)
        if sources == tuple(range(address, address + length)):
            return None, present
        return (itemgetter(*sources) if length > 1 else lambda memory: (memory[sources[0]],)), present

    def _follow(self, address: int) -> int:
        """Where an indirect data byte points to; any other address itself."""
        pointer = self._pointers.get(address)
        if pointer is None:
            return address
        target = self.memory[pointer] | self.memory[pointer + 1] << 8
        return target if target in self._at else address

    def check(self, address: int, data: bytes) -> list[tuple[Register, int]]:
        """Registers and values that a write means; nothing is stored yet.

        Raises:
            TableError: not all of it can be written.
        """
        key = (address, len(data))
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plans[key] = self._plan(address, len(data))
        order, items, refusal = plan
        if order is not None:
            data = bytes(order(data))
        values = []
        for register, at in items:
            if self.torque_locks_eeprom and register.eeprom:
                raise TableError(ACCESS, register)
            values.append((register, self._value(register, data[at : at + register.size])))
        if refusal:
            raise TableError(refusal)
        return values

    def _value(self, register: Register, data: bytes) -> int:
        value = int.from_bytes(data, "little", signed=register.low < 0)
        if not register.low <= value <= register.high:
            raise TableError(RANGE, register)
        if register.name in self.GOALS and self.goals_locked:
            raise TableError(RANGE, register)
        if register.name == "operating_mode" and value not in self.model.modes:
            raise TableError(RANGE, register)
        if not self._within(register, value):
            raise TableError(LIMIT, register)
        return value

    def _within(self, register: Register, value: int) -> bool:
        if register.limit is None:
            return True
        low_name, high_name = register.limit
        if register.name == "goal_position" and not self.position_limited:
            return True
        high = self[high_name]
        low = -high if low_name is None else self[low_name]
        return low <= value <= high

    @property
    def position_limited(self) -> bool:
        """Whether the position limits hold: single-turn modes only."""
        if "operating_mode" in self:
            return self["operating_mode"] == 3
        cw, ccw = self["cw_angle_limit"], self["ccw_angle_limit"]
        return not (cw == ccw == 0 or cw == ccw == self.model.travel)

    def _plan(self, address: int, length: int) -> tuple:
        """How to take a write of this place and length apart: (order of bytes, registers with offsets, error number)."""
        if length < 1 or address + length > len(self.memory):
            raise TableError(ACCESS)
        targets = [self._follow(a) for a in range(address, address + length)]
        place = {target: i for i, target in enumerate(targets)}
        items, refusal, done = [], 0, set()
        for target in targets:
            register = self._at.get(target)
            if register is None and target in self._pointers:
                register = Register(f"indirect_data@{target}", target, 1, 0, 0, 255)
            if register is None or not register.writable:
                refusal = refusal or ACCESS
            elif register.name not in done:
                done.add(register.name)
                if all(register.address + i in place for i in range(register.size)):
                    items.append((register, [place[register.address + i] for i in range(register.size)]))
                else:
                    refusal = refusal or LENGTH
        flat = [i for _, places in items for i in places]
        offsets, at = [], 0
        for register, _ in items:
            offsets.append((register, at))
            at += register.size
        identity = flat == list(range(length))
        order = None if identity or not flat else itemgetter(*flat) if len(flat) > 1 else lambda data: (data[flat[0]],)
        return order, tuple(offsets), refusal

    def store(self, register: Register, value: int) -> None:
        """One checked value into memory."""
        self._store(register, value)
        if register.name.startswith("indirect_address"):
            self.forget_plans()
