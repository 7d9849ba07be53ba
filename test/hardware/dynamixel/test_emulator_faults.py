"""The emulated bus as a process: its faults, its timing, its watchdog, and a shared world that drives its joints."""

import math
import random
import threading
import time
from pathlib import Path

import dynamixel_sdk as dxl
import numpy as np
import pytest
import serial

from hardware.dynamixel.emulated_codec import Receiver2, crc16
from hardware.dynamixel.emulator import DynamixelEmulator, load_servos
from hardware.emulation.emulator import running
from hardware.emulation.process import EmulatorProcess
from hardware.emulation.world import SharedWorld

BAUD = 1_000_000
MODES = "registers: {operating_mode: 1, baud_rate: 3, return_delay_time: 0}"


def until(condition, patience=60.0):
    """The first true value of `condition()`."""
    end = time.monotonic() + patience
    while not (value := condition()):
        assert time.monotonic() < end, "not within the deadline"
        time.sleep(0.01)
    return value


class Client:
    """Protocol 2.0 through the SDK; asks again where only this machine was late."""

    def __init__(self, link, baud=BAUD):
        self.port, self.handler = dxl.PortHandler(str(link)), dxl.PacketHandler(2.0)
        assert self.port.openPort() and self.port.setBaudRate(baud)

    def alive(self, id):
        return any(self.handler.ping(self.port, id)[1] == dxl.COMM_SUCCESS for _ in range(10))

    def read(self, id, address, size):
        """(value, error) once it answers."""
        ask = {1: self.handler.read1ByteTxRx, 2: self.handler.read2ByteTxRx, 4: self.handler.read4ByteTxRx}[size]
        value, _, error = self._answered(lambda: (answer := ask(self.port, id, address))[1] == 0 and answer)
        return signed(value, size), error

    def write(self, id, address, value, size):
        """Error byte, once it answers."""
        ask = {1: self.handler.write1ByteTxRx, 2: self.handler.write2ByteTxRx, 4: self.handler.write4ByteTxRx}[size]
        return self._answered(lambda: (answer := ask(self.port, id, address, value))[0] == 0 and answer)[1]

    def _answered(self, ask):
        """The answer; before asking again, time for the one that came too late, which the SDK would take for the next."""

        def patiently():
            answer = ask()
            if not answer:
                time.sleep(0.2)
            return answer

        return until(patiently)

    def close(self):
        self.port.closePort()


def signed(value, size):
    return value - (1 << 8 * size) if value >> 8 * size - 1 else value


@pytest.fixture(scope="module")
def emulator():
    with EmulatorProcess(
        "dynamixel",
        "--servos",
        "[{id: 1, model: XM430-W350, %s}, {id: 2, model: XM430-W350, %s}]" % (MODES, MODES),
        seed=3,
    ) as process:
        yield process


@pytest.fixture
def client(emulator):
    emulator.clear()
    client = Client(emulator.link)
    for id in (1, 2):
        until(lambda id=id: client.alive(id))
        client.write(id, 64, 0, 1)
        client.write(id, 98, 0, 1)
    yield client
    emulator.clear()
    client.close()


def servo(emulator, id):
    return next(servo for servo in emulator.stats()["servos"] if servo["id"] == id)


def test_a_dropped_servo_is_silent_alone(emulator, client):
    emulator.inject("drop_id", id=1)
    assert not client.alive(1) and client.alive(2)
    emulator.clear("drop_id")
    assert client.alive(1)


def test_servos_of_one_id_cannot_be_understood(emulator, client):
    emulator.inject("id_conflict", id=1)
    assert not client.alive(1) and client.alive(2)
    emulator.clear("id_conflict")
    assert client.alive(1)


def test_a_stalled_servo_draws_its_stall_current_and_shuts_down(emulator, client):
    client.write(1, 98, 0, 1)
    client.write(1, 64, 1, 1)
    emulator.inject("stall", id=1)
    client.write(1, 104, 200, 4)
    until(lambda: servo(emulator, 1)["hardware_error"] == 32)
    assert client.read(1, 64, 1) == (0, 0x80) and client.read(1, 70, 1) == (32, 0x80)
    assert servo(emulator, 1)["velocity"] == 0.0
    emulator.clear("stall")
    until(lambda: client.handler.reboot(client.port, 1)[0] == 0)
    until(lambda: client.alive(1))
    assert client.read(1, 70, 1) == (0, 0)


def test_overheating_ends_with_a_reboot(emulator, client):
    client.write(1, 64, 1, 1)
    client.write(1, 104, 100, 4)
    emulator.inject("overtemp", id=1)
    until(lambda: servo(emulator, 1)["hardware_error"] == 4)
    assert client.read(1, 70, 1) == (4, 0x80) and client.read(1, 64, 1) == (0, 0x80) and client.read(1, 146, 1)[0] > 80
    assert client.read(2, 70, 1) == (0, 0)
    emulator.clear("overtemp")
    assert client.read(1, 70, 1) == (4, 0x80)
    until(lambda: client.handler.reboot(client.port, 1)[0] == 0)
    until(lambda: client.alive(1))
    assert client.read(1, 70, 1) == (0, 0) and client.write(1, 64, 1, 1) == 0 and client.read(1, 64, 1) == (1, 0)


def test_supply_and_encoder_faults_show_in_their_bits(emulator, client):
    emulator.inject("low_voltage", volts=9.0)
    until(lambda: client.read(2, 70, 1) == (1, 0x80))
    assert client.read(2, 144, 2) == (90, 0x80)
    emulator.clear("low_voltage")
    until(lambda: client.read(2, 70, 1) == (0, 0))
    client.write(2, 64, 1, 1)
    client.write(2, 104, 60, 4)
    emulator.inject("encoder_fault", id=2)
    until(lambda: client.read(2, 70, 1) == (8, 0x80))
    frozen, before = client.read(2, 132, 4)[0], servo(emulator, 2)["position"]
    until(lambda: servo(emulator, 2)["position"] > before + 0.3)
    assert client.read(2, 132, 4)[0] == frozen
    emulator.clear("encoder_fault")
    until(lambda: client.read(2, 132, 4)[0] > frozen + 150)


def test_watchdog_stops_a_servo_whose_master_is_gone(emulator, client, withheld):
    """D9: the stop itself is timed by the servo's own clock."""

    def expired():
        """What the servo said of its watchdog: time from the last packet [ms]."""
        texts = [text for _, text in emulator.stats()["events"] if "watchdog" in text]
        return [float(text.split(" ms")[0].split()[-1]) for text in texts]

    def go():
        for address, value, size in ((98, 0, 1), (98, 5, 1), (64, 1, 1), (104, 150, 4)):
            client.write(1, address, value, size)

    def runs():
        if servo(emulator, 1)["watchdog_expired"]:  # a master on a busy machine may itself be silent for too long
            go()
        return client.read(1, 128, 4)[0] > 100

    go()
    until(runs)
    kept_waiting = withheld(emulator.pid)
    client.close()  # as a master that was killed
    until(lambda: servo(emulator, 1)["watchdog_expired"])
    # Without what the servo was ready to run and had to wait for a core.
    assert min(expired()) >= 100 and expired()[-1] <= 120 + 1e3 * (withheld(emulator.pid) - kept_waiting)
    until(lambda: abs(servo(emulator, 1)["velocity"]) < 0.05)
    again = Client(emulator.link)
    assert again.read(1, 98, 1)[0] == -1 and again.write(1, 104, 150, 4) == 4
    assert again.write(1, 98, 0, 1) == 0 and again.write(1, 104, 0, 4) == 0
    again.close()
    client.port.openPort()


def test_power_cycle_and_unplugging(emulator, client):
    client.write(1, 84, 444, 2)
    client.write(1, 64, 1, 1)
    emulator.inject("power_cycle", seconds=600.0)
    assert not client.alive(1)
    emulator.clear("power_cycle")
    until(lambda: client.alive(1))
    assert client.read(1, 84, 2) == (800, 0) and client.read(1, 64, 1) == (0, 0)
    emulator.inject("unplug")
    assert not Path(emulator.link).exists()
    with pytest.raises(OSError):
        for _ in range(100):
            client.port.ser.write(b"x")
            client.port.ser.read(1)
    emulator.clear("unplug")
    again = Client(emulator.link)
    assert again.alive(1)
    again.close()
    client.port = dxl.PortHandler(str(emulator.link))
    assert client.port.openPort()


def test_noise_leaves_it_listening(emulator, client):
    rng = random.Random(5)
    for _ in range(50):
        client.port.ser.write(
            rng.choice([b"", b"\xff\xff\xfd\x00", b"\xff\xff\xfd\x00\x01\xff\x03"]) + rng.randbytes(rng.randrange(400))
        )
    until(lambda: client.alive(1) and client.alive(2))


def test_replies_take_their_time_on_the_wire(tmp_path, withheld):
    """Sync read of 10 bytes from 6 servos at 57,600 baud with the default return delay: at least 25 ms.

    And little more, but for what this process was ready to run and had to wait for a core.
    """
    specs = load_servos("[" + ", ".join("{id: %d, model: XM430-W350}" % id for id in range(1, 7)) + "]")
    body = bytes((0x82, 126, 0, 10, 0, 1, 2, 3, 4, 5, 6))
    head = b"\xff\xff\xfd\x00\xfe" + (len(body) + 2).to_bytes(2, "little") + body
    frame = head + crc16(head).to_bytes(2, "little")
    least = (len(frame) + 6 * 21) * 10 / 57600 + 6 * 500e-6
    emulator = DynamixelEmulator(specs, tmp_path / "port")
    with running(emulator), serial.Serial(str(tmp_path / "port"), 57600, timeout=0.001) as wire:
        times, own = [], []
        for _ in range(5):
            begin, kept_waiting, data = time.monotonic(), withheld(), b""
            wire.write(frame)
            while len(data) < 6 * 21 and time.monotonic() < begin + 60.0:
                data += wire.read(200)
            times.append(time.monotonic() - begin)
            own.append(times[-1] - (withheld() - kept_waiting))
            assert len(data) == 6 * 21 and [data[21 * i + 4] for i in range(6)] == [1, 2, 3, 4, 5, 6]
    assert 0.025 < least <= min(times) and min(own) < least + 0.02


def test_late_replies_stay_whole_and_in_order_of_their_lateness(tmp_path):
    """D5, the emulator's side: 1 % of replies come after the time-out, complete, and each once."""
    specs = load_servos("[{id: 1, model: XM430-W350, registers: {return_delay_time: 0, baud_rate: 3}}]")
    emulator = DynamixelEmulator(specs, tmp_path / "port", pace=False)
    frame = bytes.fromhex("FFFFFD00 01 0300 01 194E")
    with running(emulator), serial.Serial(str(tmp_path / "port"), BAUD, timeout=0.001) as wire:
        emulator.call(lambda: emulator.inject("late_reply", by=0.05, p=0.01))
        got = b""
        for _ in range(1000):
            wire.write(frame)
            got += wire.read(200)
        end = time.monotonic() + 60.0
        while len(got) < 1000 * 14 and time.monotonic() < end:
            got += wire.read(200)
        late = emulator.call(emulator.stats)["faults"]["late_reply"]
    assert len(got) == 14_000 and got == got[:14] * 1000 and 1 <= late <= 30


# -- with a world ----------------------------------------------------------------------------------
@pytest.fixture
def world(tmp_path):
    world = SharedWorld.create(tmp_path / "world", ["shoulder", "elbow"], "<mujoco/>")
    world.publish(0.0, [0.5, -0.25], [0.0, 0.0])
    return world


ARM = """[{id: 1, model: XM430-W350, joint: shoulder, torque_constant: 2.0, registers: {operating_mode: 0, baud_rate: 3}},
          {id: 2, model: XM430-W350, joint: elbow, direction: -1, gear_ratio: 2.0, zero_count: 1000,
           registers: {operating_mode: 0, baud_rate: 3}},
          {id: 3, model: XL330-M288, joint: gripper, registers: {operating_mode: 3, baud_rate: 3}}]"""


def test_a_world_moves_the_joints_and_feels_the_torque(tmp_path, world):
    with EmulatorProcess("dynamixel", "--servos", ARM, "--world", world.path) as process:
        client = Client(process.link)
        per_rad = 4096 / (2 * math.pi)
        assert client.read(1, 132, 4)[0] == round(2048 + 0.5 * per_rad)
        assert client.read(2, 132, 4)[0] == round(1000 + 2 * 0.25 * per_rad)
        for id, current in ((1, 100), (2, 200)):
            client.write(id, 64, 1, 1)
            client.write(id, 102, current, 2)
        expected = [2.0 * 0.269, -2 * 4.1 / 2.3 * 0.538]
        until(lambda: np.allclose(world.efforts()[0], expected, rtol=1e-3))
        assert world.efforts()[1].all()
        world.publish(0.1, [0.6, 0.1], [1.0, -2.0])
        until(lambda: client.read(1, 128, 4)[0] == round(1.0 / (0.229 * 2 * math.pi / 60)))
        until(lambda: client.read(2, 128, 4)[0] == round(4.0 / (0.229 * 2 * math.pi / 60)))
        assert client.read(1, 132, 4)[0] == round(2048 + 0.6 * per_rad)  # where the world holds it, whatever the torque
        # the gripper is not in the world: it moves by itself
        client.write(3, 64, 1, 1)
        client.write(3, 116, 3000, 4)
        until(lambda: abs(client.read(3, 132, 4)[0] - 3000) < 15)
        client.write(1, 64, 0, 1)
        until(lambda: list(world.efforts()[1]) == [False, True] and world.efforts()[0][0] == 0.0)
        client.close()
    until(lambda: not world.efforts()[1].any())


def test_the_torque_is_renewed_without_requests(tmp_path, world, withheld):
    """At least 500 times a second by the servo's own clock, whoever asks or does not.

    Of the time that it was not kept waiting for a core.
    """
    emulator = DynamixelEmulator(load_servos(ARM), tmp_path / "port", world=SharedWorld.open(world.path))
    applied = []
    inner = emulator.world.apply
    emulator.world.apply = lambda *args: (applied.append(time.monotonic()), inner(*args))
    with running(emulator):
        begin, kept_waiting = time.monotonic(), withheld()
        threading.Event().wait(1.0)
        ticks = emulator.call(lambda: emulator.bus.ticks)
        kept_waiting, span = withheld() - kept_waiting, time.monotonic() - begin
    assert ticks >= 2 * len(applied) - 200
    assert len(applied) >= 333 * (span - kept_waiting)  # 500 on a free machine


def test_current_loop_and_world_close_into_a_pendulum(tmp_path, world):
    """A plant of one inertia at the shoulder: k_t i accelerates it, without the gear's friction."""
    with EmulatorProcess("dynamixel", "--servos", ARM, "--world", world.path) as process:
        client, stop = Client(process.link), threading.Event()
        inertia, track = 0.05, []

        def plant():
            q, v, began = 0.0, 0.0, time.monotonic()
            now = 0.0
            while not stop.is_set():
                tau = world.efforts()[0][0]
                step, now = time.monotonic() - began - now, time.monotonic() - began
                v += tau / inertia * step
                q += v * step
                track.append((now, v, tau))
                world.publish(now, [q, 0.0], [v, 0.0])
                time.sleep(0.002)

        thread = threading.Thread(target=plant, daemon=True)
        thread.start()
        client.write(1, 64, 1, 1)
        client.write(1, 102, 20, 2)
        until(lambda: track and track[-1][1] > 1.0)
        stop.set()
        thread.join()
        client.close()
    taus = {round(tau, 6) for _, v, tau in track if 0.05 < v < 1.0}
    assert taus == {round(2.0 * 20 * 2.69e-3, 6)}


def test_the_emulators_packets_are_its_own(emulator, client):
    """Nothing of the driver is imported by the emulator, so that each checks the other."""
    source = "".join(path.read_text() for path in Path("hardware/dynamixel").glob("emulat*.py"))
    assert "import" in source and not any(
        f"dynamixel.{name} import" in source for name in ("protocol1", "protocol2", "tables", "bus", "packets")
    )
    assert Receiver2().feed(b"") == []
