import contextlib

import pytest


@pytest.fixture
def closing():
    """closing(driver) returns it, and closes it in the end whatever becomes of the test; the last one first."""
    with contextlib.ExitStack() as drivers:
        yield lambda driver: drivers.enter_context(contextlib.closing(driver))


class Wire:
    """In place of a pseudo-terminal: what is `coming` to be read, what has `gone`."""

    stats: dict = {}

    def __init__(self, baud):
        self.baud = baud
        self.coming, self.gone = b"", []

    def read(self, timeout=0.0):
        data, self.coming = self.coming, b""
        return data

    def write(self, data):
        self.gone.append(data)


@pytest.fixture(scope="session")
def wire():
    """Makes wires of a baud rate."""
    return Wire
