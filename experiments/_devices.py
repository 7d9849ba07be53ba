"""The devices of the fault study: how each is played, how its driver is told, what of its faults must show."""

from demo.device_bench import Played

__all__ = ["DEVICES"]

#: of everything on a serial line. Probabilities and delays are such that a fault of half a second cannot hide.
SERIAL = {
    "unplug": {"seconds": (0.5, 3.0)},
    "silence": {"seconds": (0.7, 2.0)},
    "delay": {"by": 0.6, "seconds": (0.7, 2.0)},
    "corrupt": {"p": 0.5, "seconds": (0.7, 2.0)},
    "truncate": {"p": 0.5, "seconds": (0.7, 2.0)},
    "garbage": {"p": 0.7, "seconds": (0.7, 2.0)},
    "power_cycle": {"seconds": (0.5, 1.5)},
    "wrong_baud": {"baud": 9600, "seconds": (0.7, 2.0)},
}


def _without(*names: str) -> dict[str, dict]:
    return {name: parameters for name, parameters in SERIAL.items() if name not in names}


DEVICES = [
    Played("urg", "urg", ("urg",), {"serial_port": "{link}"}, {
        **_without("wrong_baud"), "block_sum": {"seconds": (0.7, 2.0)}, "laser_fault": {"seconds": (0.7, 2.0)}}),
]
