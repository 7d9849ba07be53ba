"""Many datagrams in one call: all of them, in order, the odd ones counted."""

import socket

import numpy as np
import pytest

from hardware.netft.datagrams import DatagramReader


@pytest.fixture
def pair():
    receiver, sender = (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
    )
    receiver.bind(("127.0.0.1", 0))
    sender.connect(receiver.getsockname())
    receiver.setblocking(False)
    yield receiver, sender
    receiver.close()
    sender.close()


def test_nothing_waits(pair):
    data, odd = DatagramReader(36, 40).read(pair[0].fileno())
    assert len(data) == 0 and odd == 0


def test_all_that_waits_in_order(pair):
    receiver, sender = pair
    sent = [bytes([k]) * 36 for k in range(10)]
    for datagram in sent:
        sender.send(datagram)
    reader = DatagramReader(36, 40, count=4)
    got = [reader.read(receiver.fileno()) for _ in range(4)]
    assert b"".join(bytes(data) for data, _ in got) == b"".join(sent) and not any(odd for _, odd in got)
    assert [len(data) // 36 for data, _ in got] == [4, 4, 2, 0]


def test_datagrams_of_several_records_and_odd_ones(pair):
    receiver, sender = pair
    rng = np.random.default_rng(1)
    sent = [rng.bytes(36 * n) for n in (1, 40, 3)]
    for datagram in (sent[0], b"", rng.bytes(35), sent[1], rng.bytes(36 * 41), sent[2]):
        sender.send(datagram)
    data, odd = DatagramReader(36, 40).read(receiver.fileno())
    assert bytes(data) == b"".join(sent) and odd == 3  # empty, cut in itself, longer than the longest


def test_a_socket_that_is_gone_is_an_error(pair):
    with pytest.raises(OSError):
        DatagramReader(36, 40).read(9999)
