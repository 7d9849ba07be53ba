"""The emulators' common ground against plain clients: wire time, rates, faults, processes, the shared world."""

import os
import signal
import subprocess
import sys
import time
import types

import numpy as np
import pytest
import serial

from hardware.emulation.emulator import Emulator
from hardware.emulation.faults import Faults
from hardware.emulation.process import EmulatorProcess
from hardware.emulation.pty_port import PtyPort
from hardware.emulation.world import SharedWorld

#: for processes that run elsewhere
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [os.getcwd(), os.environ.get("PYTHONPATH")]))}


def received(client, n, patience=5.0):
    data, end = b"", time.monotonic() + patience
    while len(data) < n and time.monotonic() < end:
        data += client.read(4096)
    return data


def test_bytes_take_their_time_on_the_wire(tmp_path):
    port = PtyPort(tmp_path / "port", 19200)
    with serial.Serial(str(port.link), 19200, timeout=0.01) as client:
        begin = time.monotonic()
        port.write(bytes(range(96)) * 2)
        assert received(client, 192) == bytes(range(96)) * 2
        assert time.monotonic() - begin >= 192 * 10 / 19200 - 1e-3
    port.close()


def test_a_wrong_rate_hears_and_says_nothing(tmp_path):
    port = PtyPort(tmp_path / "port", 1_000_000)
    with serial.Serial(str(port.link), 57600, timeout=0.05) as client:
        client.write(b"hello")
        assert port.read(0.5) == b"" and port.stats["wrong_baud"] == 5 and port.client_baud() == 57600
        port.write(b"answer")
        assert client.read(10) == b""
        client.baudrate = 1_000_000
        client.write(b"hello")
        assert port.read(0.5) == b"hello"
        port.write(b"answer")
        assert received(client, 6) == b"answer"
    port.close()


def test_unplugging_fails_the_client_and_replugging_serves_a_new_one(tmp_path):
    port = PtyPort(tmp_path / "port", None)
    client = serial.Serial(str(port.link), 9600, timeout=0.2)
    port.unplug()
    assert not port.link.exists()
    with pytest.raises((OSError, serial.SerialException)):
        client.read(1)
        client.write(b"x")
    client.close()
    port.replug()
    with serial.Serial(str(port.link), 115200, timeout=1.0) as client:
        client.write(b"again")
        assert port.read(1.0) == b"again"
    port.close()


def test_what_does_not_fit_is_lost_and_counted(tmp_path):
    port = PtyPort(tmp_path / "port", None)
    for _ in range(100):
        port.write(bytes(4096))
    assert port.stats["overflow"] > 0 and port.stats["sent"] + port.stats["overflow"] == 409600
    port.close()


def test_faults_repeat_under_a_seed_and_do_what_they_say():
    frame = bytes(range(40))

    def played(seed):
        faults = Faults(seed)
        for name, parameters in (
            ("corrupt", {"p": 0.3}),
            ("truncate", {"p": 0.2}),
            ("garbage", {"p": 0.2}),
            ("duplicate", {"p": 0.1}),
        ):
            faults.inject(name, **parameters)
        return [faults.frames(frame) for _ in range(300)], faults.counts

    first, counts = played(5)
    assert (first, counts) == played(5) and first != played(6)[0]
    assert 50 < counts["corrupt"] < 130
    changed = [f for out in first for _, f in out if len(f) == 40 and f != frame]
    assert changed and all(sum(a != b for a, b in zip(f, frame)) == 1 for f in changed)


def test_silence_delay_and_expiry():
    faults = Faults()
    faults.inject("delay", by=0.2)
    assert faults.frames(b"x") == [(0.2, b"x")]
    faults.inject("silence", seconds=0.05)
    assert faults.frames(b"x") == []
    time.sleep(0.06)
    faults.expire()
    assert faults.frames(b"x") == [(0.2, b"x")]
    faults.clear()
    assert faults.frames(b"x") == [(0.0, b"x")]
    assert [name for _, name, _ in faults.log] == ["delay", "silence", "clear:silence", "clear:delay"]


class Played(Emulator):
    """What it sends is in `out`."""

    def __init__(self, seed):
        super().__init__(Faults(seed))
        self.out = []
        self.port = types.SimpleNamespace(write=self.out.append, unplug=lambda: None, replug=lambda: None, stats={})

    def step(self, timeout):
        time.sleep(timeout)

    def play(self, n):
        """Numbers 0 to n - 1 as frames, with a jitter that ends before the last of them."""
        self.inject("jitter", by=0.05)
        for k in range(n):
            self.send(bytes([k]))
        self.faults.clear("jitter")
        self.send(bytes([n]))
        while self._late:
            self._turn()


def test_on_a_line_nothing_overtakes_a_delayed_frame_and_on_a_network_everything_does():
    line, network = Played(1), Played(1)
    network.overtaking = True
    line.play(20), network.play(20)
    order = [bytes([k]) for k in range(21)]
    assert line.out == order and network.out != order and sorted(network.out) == order
    line.inject("delay", by=10.0)
    line.send(b"late")
    line.inject("unplug", 0.0)
    assert not line._late  # what was under way is lost


def test_command_line_teaches():
    done = subprocess.run([sys.executable, "-m", "hardware.emulate", "toaster"], capture_output=True, text=True)
    assert done.returncode == 2 and "no device 'toaster'; there are dynamixel, urg" in done.stderr
    assert (
        "servos on one bus"
        in subprocess.run([sys.executable, "-m", "hardware.emulate", "--list"], capture_output=True, text=True).stdout
    )


def test_shared_world_between_two_processes(tmp_path):
    world = SharedWorld.create(tmp_path / "world", ["a", "b", "c"], "<mujoco/>")
    assert world.efforts()[1].tolist() == [False] * 3
    world.publish(1.5, [1, 2, 3], [4, 5, 6], np.arange(6))
    program = """
import sys
from hardware.emulation.world import SharedWorld
world = SharedWorld.open(sys.argv[1])
state = world.state()
world.apply(world.indices(["c", "a"]), [state.q[2], state.v[0] + state.wrench[5]], driven=[True, False])
print(world.mjcf, state.t)
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "world")], capture_output=True, text=True, check=True
    )
    assert done.stdout == "<mujoco/> 1.5\n"
    tau, driven = world.efforts(age_limit=10.0)
    assert tau.tolist() == [9.0, 0.0, 3.0] and driven.tolist() == [False, False, True]
    time.sleep(0.02)
    assert world.efforts(age_limit=0.01)[0].tolist() == [0.0] * 3
    with pytest.raises(ValueError, match="no joint elbow, only a, b, c"):
        world.indices(["elbow"])
    with pytest.raises(ValueError, match="no shared world"):
        SharedWorld.open(tmp_path / "none")


WAITING = {
    "urg": ["--link", "port"],
    "netft": ["--ip", "127.0.0.3", "--http-port", "0"],
    "dynamixel": ["--link", "port", "--servos", "[{id: 1, model: XM430-W350, joint: a}]"],
}


@pytest.mark.parametrize("device", WAITING)
def test_an_emulator_waits_for_its_plant_until_it_comes_or_ctrl_c(tmp_path, device):
    mjcf = "<mujoco><worldbody><body><joint name='a'/><geom size='0.1'/><site name='urg'/></body></worldbody></mujoco>"
    command = [sys.executable, "-m", "hardware.emulate", device, *WAITING[device], "--world", "world"]

    def start():
        begun = subprocess.Popen(
            command, cwd=tmp_path, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        said = begun.stderr.readline()
        assert said.startswith("Waiting for the simulated robot at world: start sim_plant"), said
        return begun

    ended = start()
    ended.send_signal(signal.SIGINT)
    assert ended.communicate(timeout=60.0) == ("", "") and ended.returncode == 0
    served = start()
    SharedWorld.create(tmp_path / "world", ["a"], mjcf)
    assert served.stdout.readline() == "READY\n"
    served.send_signal(signal.SIGINT)
    assert served.communicate(timeout=60.0) == ("", "") and served.returncode == 0


def test_a_state_is_never_read_half_written(tmp_path):
    """The writer in another process, as fast as it can; every array it writes is one number repeated."""
    world = SharedWorld.create(tmp_path / "world", ["a", "b", "c", "d"], "")
    program = """
import sys, time
from hardware.emulation.world import SharedWorld
world, k, end = SharedWorld.open(sys.argv[1]), 0.0, time.monotonic() + 1.5
while time.monotonic() < end:
    k += 1.0
    world.publish(k, [k] * 4, [k] * 4, [k] * 6)
print(k)
"""
    writer = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "world")], stdout=subprocess.PIPE, text=True
    )
    last = 0.0
    while writer.poll() is None:
        state = world.state()
        assert {state.t} == {*state.q, *state.v, *state.wrench} and state.t >= last
        last = state.t
    assert writer.returncode == 0 and world.state().t == float(writer.stdout.read()) > 1000


def test_a_writer_stuck_in_the_middle_leaves_the_state_before(tmp_path):
    """Whether it waits for a processor there or has died: nobody waits for it, nobody sees its half."""
    world, reader = SharedWorld.create(tmp_path / "world", ["a"], ""), SharedWorld.open(tmp_path / "world")
    world.publish(1.0, [1.0], [1.0], np.ones(6))
    seen = []

    class Dies:
        def __array__(self, *arguments, **options):
            for _ in range(100):
                seen.append(reader.state())
            raise KeyboardInterrupt

    begin = time.process_time()
    with pytest.raises(KeyboardInterrupt):
        world.publish(2.0, [2.0], Dies())
    seen.append(reader.state())
    assert (
        all((s.t, s.q, s.v, *s.wrench) == (1.0, 1.0, 1.0, *np.ones(6)) for s in seen)
        and time.process_time() - begin < 0.2
    )
    world.publish(3.0, [3.0], [3.0])
    assert reader.state().t == 3.0 and reader.state().wrench.tolist() == [1.0] * 6  # without a wrench: as before


def test_motors_of_several_emulators_do_not_disturb_each_other(tmp_path):
    """Two writers as fast as they can, an arm's and a gripper's; a joint's torque is odd where it is driven."""
    world = SharedWorld.create(tmp_path / "world", ["a", "b", "c"], "")
    program = """
import sys, time
from hardware.emulation.world import SharedWorld
world, k, end = SharedWorld.open(sys.argv[1]), 0, time.monotonic() + 1.0
joints = world.indices(sys.argv[2:])
while time.monotonic() < end:
    k += 1
    world.apply(joints, k, driven=k % 2 == 1)
print(k)
"""
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(tmp_path / "world"), *joints], stdout=subprocess.PIPE, text=True
        )
        for joints in (["a", "b"], ["c"])
    ]
    last = np.zeros(3)
    while any(writer.poll() is None for writer in writers):
        tau, driven = world.efforts(age_limit=60.0)
        assert (tau % 2 == driven).all() and (tau >= last).all()
        last = tau
    arm, gripper = (int(writer.stdout.read()) for writer in writers)
    assert world.efforts(age_limit=60.0)[0].tolist() == [arm, arm, gripper]


def test_requests_to_an_emulator_that_has_ended_say_so():
    with EmulatorProcess("rangefinder") as process:
        assert process.stats()["faults"] == {}
        process.kill()
        with pytest.raises(RuntimeError, match=r"rangefinder has ended \(exit code -9\)"):
            process.stats()
