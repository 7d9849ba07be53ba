"""The emulated Net F/T before clients that know nothing of it: NetFT from PyPI, a bare socket, a bare HTTP request."""

import os
import socket
import struct
import time
import urllib.request

import NetFT
import numpy as np
import pytest

from hardware.emulation.process import EmulatorProcess
from hardware.netft.configuration import parse_configuration

IP = f"127.35.{os.getpid() // 250 % 250}.{os.getpid() % 250 + 1}"
WRENCH = [1.5, -2.25, 3.0, 0.125, -0.5, 0.75]


@pytest.fixture(scope="module")
def process():
    with EmulatorProcess("netft", "--ip", IP, "--http-port", 0, "--wrench", *WRENCH, "--rate", 1000) as emulator:
        yield emulator


@pytest.fixture
def box(process):
    process.clear()
    process.set(wrench=WRENCH, threshold=None)
    process.inject("power_cycle", 0.01)
    while process.stats()["log"][-1][1] != "clear:power_cycle":
        time.sleep(0.01)
    return process


@pytest.fixture
def client():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.connect((IP, 49152))
        s.settimeout(5.0)
        yield s


def ask(client, command, count=0):
    client.send(struct.pack(">HHI", 0x1234, command, count))


def record(data, k=0):
    return struct.unpack_from(">IIIiiiiii", data, 36 * k)


def quiet(client, seconds=0.15):
    """Whether nothing comes any more; what was under way is read."""
    client.settimeout(seconds)
    end = time.monotonic() + 5.0
    try:
        while time.monotonic() < end:
            client.recv(2048)
    except TimeoutError:
        return True
    return False


def test_the_unmodified_client(box):
    """F2."""
    sensor = NetFT.Sensor(IP)
    try:
        assert sensor.getForce() == [1_500_000, -2_250_000, 3_000_000]
        assert sensor.getTorque() == [125_000, -500_000, 750_000]
        sensor.startStreaming(handler=False)
        assert all(sensor.receive() == [int(1e6 * w) for w in WRENCH] for _ in range(200))
        sensor.stopStreaming()
        assert quiet(sensor.sock)
        assert sensor.tare(10) == pytest.approx([1e6 * w for w in WRENCH])
        assert sensor.getMeasurement() == pytest.approx([0.0] * 6, abs=1e-6)
    finally:
        sensor.sock.close()


def test_counted_streams_end_and_numbers_are_true_to_time(box, client):
    ask(client, 0x0002, 50)
    got = [record(client.recv(2048)) for _ in range(50)]
    assert [r[0] for r in got] == list(range(1, 51))
    # 7000 internal samples and 1000 records per second.
    assert set(np.diff([r[1] for r in got])) == {7} and {r[2] for r in got} == {0}
    assert quiet(client)


def test_buffered_stream_holds_as_many_records_as_the_page_says(box, client):
    page = urllib.request.urlopen(f"http://{IP}:{box.stats()['http_port']}/netftapi2.xml", timeout=5).read()
    configuration = parse_configuration(page)
    assert (
        configuration.buffer_size == 10
        and configuration.rdt_rate == 1000
        and configuration.identity.serial == "FT00001"
    )
    ask(client, 0x0003, 25)
    sizes = [len(client.recv(2048)) // 36 for _ in range(3)]
    assert sizes == [10, 10, 5]


@pytest.mark.parametrize("command", [0x0001, 0x0004])
def test_the_other_streams(box, client, command):
    ask(client, command, 3)
    assert [record(client.recv(2048))[0] for _ in range(3)] == [1, 2, 3]


def test_bias_latch_and_saturation(box, client):
    ask(client, 0x0042)
    ask(client, 0x0002, 1)
    assert record(client.recv(2048))[3:] == (0,) * 6
    box.set(threshold=1.0, wrench=[5.0, 0, 0, 0, 0, 0])
    ask(client, 0x0002, 1)
    assert record(client.recv(2048))[2] == 1 << 31 | 1 << 16
    box.set(threshold=None)
    ask(client, 0x0002, 1)
    assert record(client.recv(2048))[2] == 1 << 31 | 1 << 16  # latched
    ask(client, 0x0041)
    ask(client, 0x0002, 1)
    assert record(client.recv(2048))[2] == 0
    box.set(wrench=[0, 0, 2000.0, 0, 0, 0])
    ask(client, 0x0002, 1)
    got = record(client.recv(2048))
    assert got[2] == 1 << 31 | 1 << 17 and got[5] == 990_000_000  # at its rating


def test_the_last_to_ask_is_the_only_one_to_get(box, client):
    ask(client, 0x0002)
    client.recv(2048)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.connect((IP, 49152))
        other.settimeout(5.0)
        ask(other, 0x0002)
        assert record(other.recv(2048))[0] == 1
        assert quiet(client)
        ask(other, 0x0000)
        assert quiet(other)


def test_requests_of_another_shape_are_ignored(box, client):
    for data in (b"", b"\x12\x34", struct.pack(">HHI", 0x4321, 2, 0), struct.pack(">HHI", 0x1234, 0x77, 0), bytes(100)):
        client.send(data)
    assert quiet(client)
    ask(client, 0x0002, 1)
    assert record(client.recv(2048))[0] == 1


def test_damage_on_the_way_never_arrives_as_data(box, client):
    """UDP's checksum: what is corrupted or truncated is lost, garbage never was a datagram."""
    for fault in ("corrupt", "truncate", "garbage"):
        box.inject(fault, p=0.5)
    ask(client, 0x0002, 200)
    client.settimeout(0.5)
    got = []
    try:
        while True:
            got.append(client.recv(2048))
    except TimeoutError:
        pass
    assert 20 < len(got) < 90 and all(record(data)[3:] == tuple(int(1e6 * w) for w in WRENCH) for data in got)


def test_web_settings(box, client):
    url = f"http://{IP}:{box.stats()['http_port']}/"
    fetch = lambda what: urllib.request.urlopen(url + what, timeout=5).read()
    fetch("comm.cgi?comrdtrate=900&comrdtbsiz=4")
    configuration = parse_configuration(fetch("netftapi2.xml"))
    # The next whole fraction of 7000 at or above 900.
    assert configuration.rdt_rate == 1000 and configuration.buffer_size == 4
    fetch("config.cgi?cfgfu=1&cfgtu=2")
    assert parse_configuration(fetch("netftapi2.xml")).units == ("lbf", "lbf-ft")
    fetch("config.cgi?cfgfu=2&cfgtu=3")
    fetch("comm.cgi?comrdtrate=1000&comrdtbsiz=10")
    with pytest.raises(urllib.error.HTTPError):
        fetch("nothing.xml")
