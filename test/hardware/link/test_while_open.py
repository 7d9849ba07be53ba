"""An attribute that is there while a link is open, and says so when it is not."""

import pytest

from hardware.link import Disconnected, WhileOpen


class Thermometer:
    _port = WhileOpen[str]()


def test_it_is_there_while_it_is_open_and_belongs_to_one_device():
    one, other = Thermometer(), Thermometer()
    one._port = "/dev/one"
    assert one._port == "/dev/one" and Thermometer._port.of(one) == "/dev/one" and Thermometer._port.of(other) is None
    with pytest.raises(Disconnected, match="Thermometer is not open"):
        _ = other._port
    one._port = None
    with pytest.raises(Disconnected, match="Thermometer is not open"):
        _ = one._port
