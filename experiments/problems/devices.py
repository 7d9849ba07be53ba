"""The devices of the fault study: how each is played, how its driver is told, what of its faults must show.

Rates are such that ten drivers and ten emulators fit on two cores.
"""

from experiments.problems.device_bench import Played

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


_SERVOS = "[" + ", ".join(f"{{id: {i}, model: XM430-W350, load_inertia: 0.002}}" for i in range(1, 4)) + "]"
_JOINTS = {
    f"joints.j{i}.{name}": value
    for i in range(1, 4)
    for name, value in (("id", i), ("model", "XM430-W350"), ("operating_mode", 3))
}
_LAST = {"seconds": (0.7, 2.0)}

DEVICES = [
    Played(
        "dynamixel",
        "dynamixel",
        ("dynamixel", "--servos", _SERVOS, "--baud", "1000000"),
        {"port_name": "{link}", "baud_rate": 1_000_000, "update_rate": 50.0, "torque_on_activate": True, **_JOINTS},
        {
            **SERIAL,
            "drop_id": {"id": 2, **_LAST},
            "encoder_fault": {"id": 3, **_LAST},
            "late_reply": {"p": 0.3, **_LAST},
        },
    ),
    Played(
        "urg",
        "urg",
        ("urg",),
        {"serial_port": "{link}"},
        {**_without("wrong_baud"), "block_sum": _LAST, "lost_lf": _LAST, "laser_fault": _LAST},
    ),
    Played(
        "net_ft",
        "force_torque",
        ("netft", "--ip", "{ip}", "--http-port", "8080"),
        {"driver": "netft", "address": "{ip}", "http_port": 8080, "rate": 500.0, "publish_rate": 125.0},
        {
            "unplug": {"seconds": (0.5, 3.0)},
            "silence": _LAST,
            "udp_loss": {"p": 0.2, **_LAST},
            "reorder": {"p": 0.2, **_LAST},
            "dup": {"p": 0.2, **_LAST},
            "seq_reset": _LAST,
            "saturate": _LAST,
            "client_stolen": _LAST,
            "power_cycle": _LAST,
        },
    ),
    Played(
        "ft300",
        "force_torque",
        ("ft300",),
        {"driver": "ft300", "port": "{link}", "rate": 100.0, "publish_rate": 100.0},
        {**SERIAL, "saturate": _LAST},
    ),
    Played("gripper", "robotiq", ("robotiq",), {"port_name": "{link}", "auto_reactivate": True}, SERIAL),
    Played("hand", "ability_hand", ("ability_hand",), {"port_name": "{link}", "update_rate": 50.0}, SERIAL),
    Played(
        "rangefinder",
        "rangefinder",
        ("rangefinder",),
        {"port_name": "{link}"},
        {**_without("delay"), "wrong_baud": {"baud": 4800, **_LAST}},
    ),
    Played("estop", "estop", ("estop",), {"port_name": "{link}"}, _without("delay")),
    Played(
        "camera",
        "realsense",
        ("realsense",),
        {
            "device_source": "emulated",
            "emulator_link": "{link}",
            "depth_module.depth_profile": "424x240x30",
            "rgb_camera.color_profile": "424x240x30",
        },
        {
            "drop": {"p": 0.5, **_LAST},
            "stall_stream": {"stream": "depth", **_LAST},
            "temp": {"celsius": 75, "seconds": (1.2, 2.0)},
            "disconnect": {"seconds": (0.5, 3.0)},
            "malformed": {"p": 0.5, **_LAST},
        },
    ),
    Played(
        "microphone",
        "audio",
        ("audio", "--sound", "tone"),
        {"server": "unix:{link}"},
        {
            "stall": {"seconds": (1.0, 2.0)},
            "skip": {"by": 0.3, **_LAST},
            "clip": _LAST,
            "noise_floor": {"seconds": (3.0, 4.0)},
        },
    ),
]
