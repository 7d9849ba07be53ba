"""Servos on a bench, in simulated time: registers by name, and how soon a horn stands."""

from hardware.dynamixel.emulated_bus import Bus
from hardware.dynamixel.emulator import load_servos


class Bench:
    """Servos on a bench: registers by name, time by hand."""

    def __init__(self, *servos):
        self.bus = Bus(load_servos("[" + ", ".join(servos) + "]"), lambda text: None)
        self.now = 0.0

    def write(self, k=0, **values):
        for name, value in values.items():
            register = self.bus.servos[k].table.registers[name]
            self.bus.servos[k].write(register.address, value.to_bytes(register.size, "little", signed=value < 0))

    def read(self, name, k=0):
        register = self.bus.servos[k].table.registers[name]
        data = self.bus.read(self.bus.servos[k], register.address, register.size, self.now)
        return int.from_bytes(data, "little", signed=register.signed)

    def run(self, seconds, watch=lambda: None):
        for _ in range(round(seconds * 1000)):
            self.now += 1e-3
            self.bus.tick(self.now)
            watch()

    @property
    def motors(self):
        return self.bus.motors


def stands(bench, seconds=1.5):
    """From the newest command, which is its master's last word, until the horn stands for good [s]: below 0.05 rad/s."""
    begin = moved = bench.now
    for _ in range(round(seconds * 1000)):
        bench.run(0.001)
        moved = bench.now if abs(bench.motors.v[0]) > 0.05 else moved
    return moved - begin
