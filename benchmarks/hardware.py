"""What do the drivers cost, and do they lose anything?

    ./refit bench hardware

Rivals in the same run, on the same emulated devices: the makers' and users' own Python clients, `dynamixel-sdk` (one cycle of
sync write and sync read, seven servos), `hokuyolx` (full scans) and `NetFT` (records). CPU time is that of the client
alone, the emulators are processes of their own. The camera has a benchmark of its own: `./refit bench camera`.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import time
from pathlib import Path

import numpy as np

from hardware.dynamixel.bus import Bus, GroupRead
from hardware.dynamixel.commands import JointFeedback, Law
from hardware.dynamixel.device import GroupOptions, ServoGroup
from hardware.dynamixel.joints import Joint
from hardware.dynamixel.tables import CURRENT, MODELS
from hardware.emulation.process import EmulatorProcess
from hardware.emulation.wire_log import waits
from hardware.link import SerialPort
from hardware.netft.device import NetFtDevice
from hardware.urg.device import UrgDevice, UrgSettings
from hardware.urg.protocol import ReplyStream
from reporting.checks import Result
from reporting.progress import SilentProgress

SOURCE = "own target"
SERVOS = tuple(range(1, 8))
GOAL, PRESENT = (116, 4), (126, 10)  # goal position; present current, velocity, position (XM430-W350)
CYCLES = {"quick": 300, "full": 2000}
SCANS = {"quick": 30, "full": 150}
SECONDS = {"quick": 4.0, "full": 15.0}


def run(progress=SilentProgress(), size: str = "full", seed: int = 0) -> Result:
    """Servos, scanner and force-torque sensor, one after the other."""
    result = Result("bench_hardware", seed=seed, size=size)
    parts = {"servo bus": servos, "scanner": scanner, "force-torque sensor": wrench}
    for _name, part in progress.track(parts.items(), "devices"):
        part(result, size, seed)
    return result


# -- servos ------------------------------------------------------------------------------------------


def servos(result: Result, size: str, seed: int) -> None:
    """CPU time of one bus cycle, ours and the SDK's, as fast as the emulator answers and at 1 Mbit/s."""
    specs = (
        "[" + ", ".join(f"{{id: {i}, model: XM430-W350, registers: {{return_delay_time: 0}}}}" for i in SERVOS) + "]"
    )
    rng, rows = np.random.default_rng(seed), []
    goals = rng.integers(0, 4096, (CYCLES[size], len(SERVOS)))
    for label, options in (("unpaced", ("--no-pace",)), ("1 Mbit/s", ())):
        with EmulatorProcess("dynamixel", "--servos", specs, "--baud", "1000000", *options, seed=seed) as emulator:
            ours = _own_cycles(emulator.link, goals)
            theirs = _sdk_cycles(emulator.link, goals)
        rows.append({"line": label, "client": "refit", **ours["cost"]})
        rows.append({"line": label, "client": "dynamixel-sdk", **theirs["cost"]})
        result.check(
            f"servo bus, {label}: SDK's CPU time per cycle over ours",
            theirs["cost"]["CPU us"] / ours["cost"]["CPU us"],
            3.0,
            ">=",
            "1",
            SOURCE,
        )
        result.check(
            f"servo bus, {label}: frames sent that equal the SDK's, byte for byte",
            sum(a == b for a, b in zip(ours["frames"], theirs["frames"])),
            len(theirs["frames"]),
            "==",
            "",
            SOURCE,
        )
        result.check(
            f"servo bus, {label}: values read that equal the SDK's",
            int(np.sum(ours["values"] == theirs["values"])),
            theirs["values"].size,
            "==",
            "",
            SOURCE,
        )
    result.detail("one cycle: sync write and sync read of seven servos", rows)
    driver = _driver_cycles(SECONDS[size], seed)
    result.check("servo driver: rate of 12 servos at 1 Mbit/s", driver["Hz"], (99.0, 101.0), "in", "Hz", SOURCE)
    result.check("servo driver: cycle jitter, 99 %", driver["jitter p99 ms"], 2.0, "<=", "ms", SOURCE)
    result.check("servo driver: from command to wire, 95 %", driver["command p95 ms"], 3.0, "<=", "ms", SOURCE)
    result.check(
        "servo driver: bytes on the wire from a command to the end of its goals, most",
        driver["bytes on the wire, most"],
        300,
        "<=",
        "",
        SOURCE,
    )
    result.detail("driver, 12 servos in current mode, 100 Hz, 40 commands a second", driver)


def _own_cycles(link: Path, goals: np.ndarray) -> dict:
    port = SerialPort(link, 1_000_000)
    bus = Bus(port, 2.0)
    bus.return_delay = 0.0
    frame = bus.codec.SyncWriteFrame(*GOAL, SERVOS)
    group = GroupRead(bus, SERVOS, *PRESENT, "sync")
    sent, write = [], port.write
    port.write = lambda data: (sent.append(bytes(data)), write(data))
    for row in goals[:20]:  # the frames, and what comes up at a first call
        bus.send(frame.encode(row))
        group.read()
    port.write = write
    cpu, wall = time.process_time(), time.perf_counter()
    lost = 0
    for row in goals:
        bus.send(frame.encode(row))
        lost += not group.read()
    cost = {
        "CPU us": 1e6 * (time.process_time() - cpu) / len(goals),
        "wall us": 1e6 * (time.perf_counter() - wall) / len(goals),
        "cycles lost": lost,
    }
    raw = group.values[:, 1:]
    values = np.column_stack(
        [
            np.ascontiguousarray(raw[:, a:b]).view(kind)[:, 0]
            for a, b, kind in ((0, 2, "<i2"), (2, 6, "<i4"), (6, 10, "<i4"))
        ]
    )
    port.close()
    return {"cost": cost, "frames": sent, "values": values}


def _sdk_cycles(link: Path, goals: np.ndarray) -> dict:
    import dynamixel_sdk as sdk

    port, packet = sdk.PortHandler(str(link)), sdk.PacketHandler(2.0)
    assert port.openPort() and port.setBaudRate(1_000_000)
    write, read = sdk.GroupSyncWrite(port, packet, *GOAL), sdk.GroupSyncRead(port, packet, *PRESENT)
    for i in SERVOS:
        read.addParam(i)
    sent, write_port = [], port.writePort
    values, lost = np.zeros((len(SERVOS), 3), int), []

    def cycle(row):
        for i, goal in zip(SERVOS, row):
            write.addParam(i, [goal & 0xFF, goal >> 8 & 0xFF, goal >> 16 & 0xFF, goal >> 24 & 0xFF])
        write.txPacket()
        write.clearParam()
        if read.txRxPacket() != sdk.COMM_SUCCESS:
            lost.append(row)  # one late byte and the whole cycle is lost
            time.sleep(0.05)
            port.clearPort()
            return
        for k, i in enumerate(SERVOS):
            values[k] = read.getData(i, 126, 2), read.getData(i, 128, 4), read.getData(i, 132, 4)

    port.writePort = lambda data: (sent.append(bytes(data)), write_port(data))[1]
    rows = [[int(goal) for goal in row] for row in goals]
    for row in rows[:20]:
        cycle(row)
    port.writePort = write_port
    cpu, wall = time.process_time(), time.perf_counter()
    for row in rows:
        cycle(row)
    cost = {
        "CPU us": 1e6 * (time.process_time() - cpu) / len(rows),
        "wall us": 1e6 * (time.perf_counter() - wall) / len(rows),
        "cycles lost": len(lost),
    }
    port.closePort()
    signed = np.column_stack(
        [
            values[:, 0].astype("<u2").view("<i2"),
            values[:, 1].astype("<u4").view("<i4"),
            values[:, 2].astype("<u4").view("<i4"),
        ]
    )
    return {"cost": cost, "frames": sent, "values": signed}


def _driver_cycles(seconds: float, seed: int) -> dict:
    """The driver as the node runs it: 12 servos at 100 Hz, efforts commanded 40 times a second from another thread.

    A command's delay ends with the last byte of its goals on the wire, by the servos' end of it.
    """
    n = 12
    specs = "[" + ", ".join(f"{{id: {i}, model: XM430-W350, load_inertia: 0.05}}" for i in range(1, n + 1)) + "]"
    joints = [Joint(f"j{i}", i, MODELS["XM430-W350"], CURRENT, min_rad=-1e6, max_rad=1e6) for i in range(1, n + 1)]
    rng = np.random.default_rng(seed)
    with EmulatorProcess("dynamixel", "--servos", specs, "--baud", "1000000", seed=seed) as emulator:
        stamps, waiting, commanded, traffic = [], [], {}, []
        group = ServoGroup(
            str(emulator.link),
            1_000_000,
            joints,
            GroupOptions(rate=100.0, torque_on_activate=True),
            on_sample=lambda state, t: stamps.append(time.monotonic()),
        )
        command = JointFeedback(group.arrays, group.loop, np.ones(n, bool), 60.0)

        def look() -> bool:
            """A command has come in: it goes out at once."""
            if not waiting:
                return False
            use(*waiting.pop())
            return True

        def use(t: float, counts: np.ndarray) -> None:
            command.set(Law.EFFORT, t, t, counts * group.arrays.effort, np.zeros(n), np.zeros(n), np.zeros((n, 2 * n)))

        group.before_goals = look
        group.start()
        group.enable()
        try:
            assert group.wait_for(lambda: len(stamps) > 50, 20.0), group.last_error
            use(time.monotonic(), np.zeros(n))
            assert group.take(command) == ""
            first, cpu, spent, end = len(stamps), time.process_time(), 0.0, time.monotonic() + seconds
            while time.monotonic() < end:
                counts = (-1) ** len(commanded) * (10 + len(commanded)) + np.arange(n)  # no two commands alike
                packet = b"".join(
                    bytes([id]) + int(c).to_bytes(2, "little", signed=True) for id, c in enumerate(counts, 1)
                ).hex()
                t = time.monotonic()
                waiting.append((t, counts))
                commanded[t] = packet
                time.sleep(0.02 + 0.01 * rng.random())
                if len(commanded) % 25 == 0:
                    before = time.process_time()
                    traffic += emulator.stats()["traffic"]
                    spent += time.process_time() - before
            cpu, times, jitter = time.process_time() - cpu - spent, np.array(stamps[first:]), group.beat.jitter(99.0)
        finally:
            group.close()
        traffic += emulator.stats()["traffic"]
    found = waits(traffic, commanded, 1_000_000)
    delays = np.array([wait.seconds for wait in found])
    return {
        "Hz": float(1.0 / np.diff(times).mean()),
        "jitter p99 ms": 1e3 * jitter,
        "command p50 ms": 1e3 * float(np.median(delays)),
        "command p95 ms": 1e3 * float(np.percentile(delays, 95)),
        "bytes on the wire, most": max(wait.bytes for wait in found),
        "commands": len(found),
        "CPU share": cpu / seconds,
    }


# -- scanner -----------------------------------------------------------------------------------------


def scanner(result: Result, size: str, seed: int) -> None:
    """Full scans over SCIP on TCP, the one transport that both clients speak."""
    port = _free_port(socket.SOCK_STREAM)
    with EmulatorProcess("urg", "--tcp", port, "--scip", "2.0", "--noise", "0", seed=seed):
        ours = _own_scans("127.0.0.1", port, SCANS[size])
        theirs = _hokuyolx_scans("127.0.0.1", port, SCANS[size])
        raw = _raw_scan("127.0.0.1", port)
    decoding = _decoding(raw)
    result.check(
        "scanner: hokuyolx's CPU time to decode a scan over ours",
        decoding["hokuyolx us"] / decoding["refit us"],
        3.0,
        ">=",
        "1",
        "own",
    )
    result.check("scanner: distances that equal hokuyolx's", decoding.pop("equal"), 682, "==", "", SOURCE)
    result.detail("decoding of one scan", decoding)
    result.check("scanner: scans per second", ours["Hz"], (9.9, 10.1), "in", "Hz", SOURCE)
    result.check(
        "scanner: hokuyolx's CPU time per streamed scan over ours, ranges and stamps on our side alone",
        theirs["CPU us"] / ours["CPU us"],
        1.0,
        ">",
        "1",
        SOURCE,
    )
    result.detail("one scan of 682 points", [{"client": "refit", **ours}, {"client": "hokuyolx", **theirs}])


def _raw_scan(ip: str, port: int) -> bytes:
    """One reply with a full scan, as it came."""
    with socket.create_connection((ip, port), 5.0) as connection:
        connection.sendall(b"BM\nMD0044072501001\n")
        data = b""
        while b"99b" not in data or not data.endswith(b"\n\n"):
            data += connection.recv(4096)
    return data[data.rindex(b"MD") :]


def _decoding(raw: bytes, rounds: int = 200) -> dict:
    """CPU time from the bytes of one reply to distances: ours, and hokuyolx's own functions on a socket that is a string."""
    import hokuyolx

    class Said:
        def recv(self, size):
            return raw

    laser = hokuyolx.HokuyoLX.__new__(hokuyolx.HokuyoLX)
    laser._sock, laser.buf, laser._logger = Said(), 8192, logging.getLogger("hokuyo")

    def theirs():
        lines = laser._recv()
        laser._check_sum(lines[1])
        laser._convert2ts(lines[2], False)
        return laser._process_scan_data(lines[3:], False)

    stream = ReplyStream()

    def ours():
        return stream.feed(raw)[0].distances

    cost = {}
    for name, decode in (("refit us", ours), ("hokuyolx us", theirs)):
        decode()
        cpu = time.process_time()
        for _ in range(rounds):
            decode()
        cost[name] = 1e6 * (time.process_time() - cpu) / rounds
    return {**cost, "equal": int(np.sum(ours() == theirs()))}


def _own_scans(ip: str, port: int, n: int) -> dict:
    seen = []
    device = UrgDevice(UrgSettings(ip_address=ip, ip_port=port), on_sample=lambda scan, t: seen.append(t))
    device.start()
    device.enable()
    try:
        assert device.wait_for(lambda: len(seen) >= 3, 20.0), device.last_error
        cpu, _wall, first = time.process_time(), time.perf_counter(), len(seen)
        time.sleep(n / 10.0)
        count = len(seen) - first
        cost = 1e6 * (time.process_time() - cpu) / count
        stamps = np.array(seen[first:])
    finally:
        device.close()
    return {"CPU us": cost, "Hz": float((len(stamps) - 1) / np.ptp(stamps)), "scans": count}


def _hokuyolx_scans(ip: str, port: int, n: int) -> dict:
    import hokuyolx

    laser = hokuyolx.HokuyoLX(activate=False, addr=(ip, port), tsync=False, convert_time=False)
    laser.activate()
    scans = laser.iter_dist(0)
    next(scans)
    cpu, wall = time.process_time(), time.perf_counter()
    for _ in range(n):
        next(scans)
    cost = {"CPU us": 1e6 * (time.process_time() - cpu) / n, "Hz": n / (time.perf_counter() - wall), "scans": n}
    with contextlib.suppress(Exception):
        laser.close()
    return cost


def _free_port(kind) -> int:
    with socket.socket(socket.AF_INET, kind) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


# -- force-torque sensor -----------------------------------------------------------------------------


def wrench(result: Result, size: str, seed: int) -> None:
    """RDT records at 7 kHz: none may be lost; CPU time of a record."""
    seconds, ip, http = SECONDS[size], "127.41.0.1", _free_port(socket.SOCK_STREAM)
    with EmulatorProcess("netft", "--ip", ip, "--http-port", http, "--rate", 7000, seed=seed):
        ours = _own_records(ip, http, seconds)
        theirs = _netft_records(ip, int(7000 * seconds))
    result.check("force-torque sensor: records per second", ours["Hz"], (6930.0, 7070.0), "in", "Hz", SOURCE)
    result.check("force-torque sensor: records lost", ours["lost"], 0, "==", "", SOURCE)
    result.check("force-torque sensor: CPU share at 7 kHz", ours["CPU share"], 0.1, "<=", "1", "own")
    # NetFT unpacks six counts and no more: no stamps, no units, no account of what was lost.
    result.detail("one record at 7 kHz", [{"client": "refit", **ours}, {"client": "NetFT", **theirs}])


def _own_records(ip: str, http: int, seconds: float) -> dict:
    count, t = [0], []

    def take(block, _):
        count[0] += len(block.t)
        t.append(block.t[-1])

    device = NetFtDevice(ip, rate=7000, http_port=http, on_sample=take)
    device.start()
    device.enable()
    try:
        assert device.wait_for(lambda: count[0] > 1000, 20.0), device.last_error
        lost, first, cpu = device.counters.dropped, count[0], time.process_time()
        begin = t[-1]
        time.sleep(seconds)
        records, cpu, span = count[0] - first, time.process_time() - cpu, t[-1] - begin
        lost = device.counters.dropped - lost
    finally:
        device.close()
    return {"CPU us": 1e6 * cpu / records, "CPU share": cpu / seconds, "Hz": records / span, "lost": lost}


def _netft_records(ip: str, n: int) -> dict:
    import NetFT

    sensor = NetFT.Sensor(ip)
    sensor.startStreaming(handler=False)
    try:
        sensor.receive()
        cpu, wall = time.process_time(), time.perf_counter()
        for _ in range(n):
            sensor.receive()
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    finally:
        sensor.send(0)
        sensor.sock.close()
    # It cannot tell a lost record from one that never was.
    return {"CPU us": 1e6 * cpu / n, "CPU share": cpu / wall, "Hz": n / wall, "lost": ""}
