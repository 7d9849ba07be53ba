"""The devices of the fault study: how each is played, how its driver is told, and what must show of each of its faults.

The faults of all devices are the level-and-counter matrix: a row for a device and a fault, with the level that the driver's
diagnostics must reach, the counters of which one must grow, and the words that the sentence must have. Rates are such that
ten drivers and ten emulators fit on two cores; probabilities and delays are such that a fault of half a second cannot hide.

What cannot show is not played: frames of the FT-300 carry neither number nor time, so that one sent twice looks like two; the
microphone's samples likewise; and the FT-300, rangefinder, emergency stop and microphone do not tell how hot they are.
"""

from std_srvs.srv import SetBool, Trigger

from experiments.problems.device_bench import KILLED, Injection, Played
from experiments.problems.device_signs import ERROR, WARN, Sign

__all__ = ["DEVICES"]

GONE = "is gone|no port|closed at its other end|is closed|in use|unplugged|cannot be opened"
LOST = Sign(ERROR, ("reconnects",), GONE)
DAMAGE = ("crc_errors", "resyncs")
SILENT = "no data|did not answer|has answered|fell silent|brought no valid|no reading|no heartbeat|no good heartbeat|no Ability"


def _lost(*seconds: float) -> Injection:
    return Injection(LOST, seconds=seconds or (0.5, 3.0))


def _serial(silent: Sign, damaged: Sign, broken: Sign | None = None, baud: int = 9600, delay: float = 0.6) -> dict:
    """Faults of everything on a serial line.

    Args:
        silent: what is said when nothing comes. damaged: when bytes are wrong. broken: when frames end early.
        baud: a wrong rate; 0: the line has none. delay: of a frame [s]; 0: a delayed stream is a stream all the same.
    """
    faults = {
        "unplug": _lost(),
        KILLED: _lost(0.5, 2.0),
        "silence": Injection(silent),
        "corrupt": Injection(damaged, {"p": 0.5}),
        "truncate": Injection(broken or damaged, {"p": 0.5}),
        "garbage": Injection(damaged, {"p": 0.7}),
        "power_cycle": Injection(silent, seconds=(0.5, 1.5)),
    }
    if baud:
        faults["wrong_baud"] = Injection(silent, {"baud": baud})
    if delay:
        faults["delay"] = Injection(silent, {"by": delay})
    return faults


_SERVOS = "[" + ", ".join(f"{{id: {i}, model: XM430-W350, load_inertia: 0.002}}" for i in range(1, 4)) + "]"
_JOINTS = {
    f"joints.j{i}.{name}": value
    for i in range(1, 4)
    for name, value in (("id", i), ("model", "XM430-W350"), ("operating_mode", 3))
}
_RESTART = ((Trigger, "reboot_dxl"), (SetBool, "set_dxl_torque"))

DEVICES = [
    Played(
        "dynamixel",
        "dynamixel",
        ("dynamixel", "--servos", _SERVOS, "--baud", "1000000"),
        {
            "port_name": "{link}",
            "baud_rate": 1_000_000,
            "update_rate": 50.0,
            "torque_on_activate": True,
            "require_supervisor": False,
            **_JOINTS,
        },
        {
            **_serial(
                Sign(ERROR, ("timeouts", "servos_lost", "reconnects"), SILENT + "|does not answer|none did its part"),
                Sign(WARN, DAMAGE),
                Sign(WARN, (*DAMAGE, "timeouts")),
            ),
            "jitter": Injection(Sign(WARN, ("timeouts", "unexpected")), {"by": 0.3}),
            "duplicate": Injection(Sign(WARN, ("resyncs",)), {"p": 1.0}),
            "drop_id": Injection(Sign(ERROR, ("servos_lost",), r"joint j2 \(id 2\) does not answer"), {"id": 2}),
            "id_conflict": Injection(Sign(WARN, (*DAMAGE, "timeouts")), {"id": 2}),
            "encoder_fault": Injection(Sign(ERROR, ("alerts",), r"joint j3 \(id 3\) reports encoder"), {"id": 3}),
            "low_voltage": Injection(Sign(ERROR, ("alerts",), "reports input voltage"), {"volts": 9.0}),
            "overtemp": Injection(
                Sign(ERROR, ("alerts",), r"joint j2 (\(id 2\) reports overheating|is at \d+ deg C, limit)"),
                {"id": 2},
                cure=_RESTART,
            ),
            "late_reply": Injection(Sign(WARN, ("timeouts",)), {"p": 0.3}),
        },
    ),
    Played(
        "urg",
        "urg",
        ("urg",),
        {"serial_port": "{link}"},
        {
            **_serial(
                Sign(ERROR, ("timeouts", "reconnects"), SILENT + "|no valid scan|restarted|no URG"),
                Sign(WARN, DAMAGE),
                baud=0,
            ),
            "jitter": Injection(Sign(ERROR, ("timeouts",), SILENT), {"by": 1.5}, seconds=(2.0, 3.0)),
            "duplicate": Injection(Sign(WARN, ("dropped",)), {"p": 1.0}),
            "overtemp": Injection(Sign(ERROR, says=r"\(60\)")),
            "block_sum": Injection(Sign(WARN, DAMAGE)),
            "lost_lf": Injection(Sign(WARN, DAMAGE)),
            "laser_fault": Injection(Sign(ERROR, says=r"\(50\)")),
        },
    ),
    Played(
        "net_ft",
        "force_torque",
        ("netft", "--ip", "{ip}", "--http-port", "8080"),
        {"driver": "netft", "address": "{ip}", "http_port": 8080, "rate": 500.0, "publish_rate": 125.0},
        {
            "unplug": Injection(
                Sign(WARN, ("repeated_requests",), "no data|sends no records|asked for again"), seconds=(0.5, 3.0)
            ),
            # Its datagrams know no connection: a box that is back before the driver gives up is only asked again.
            KILLED: Injection(
                Sign(
                    ERROR,
                    ("reconnects", "repeated_requests"),
                    "cannot be reached|sends no records|no data|does not answer",
                ),
                seconds=(0.5, 2.0),
            ),
            "silence": Injection(Sign(WARN, ("repeated_requests",), "no data|sends no records|asked for again")),
            "power_cycle": Injection(Sign(WARN, ("repeated_requests",), "no data|sends no records|asked for again")),
            "jitter": Injection(Sign(WARN, ("late",)), {"by": 0.02}),
            "corrupt": Injection(Sign(WARN, ("dropped",)), {"p": 0.2}),
            "udp_loss": Injection(Sign(WARN, ("dropped",)), {"p": 0.2}),
            "reorder": Injection(Sign(WARN, ("late",)), {"p": 0.2}),
            "dup": Injection(Sign(WARN, ("duplicates",)), {"p": 0.2}),
            "seq_reset": Injection(Sign(WARN, ("restarts",), "began anew")),
            "saturate": Injection(Sign(ERROR, says="exceeds what the sensor can measure")),
            "overtemp": Injection(Sign(ERROR, says="The sensor reports")),
            "status_bit": Injection(Sign(ERROR, says="The sensor reports"), {"bit": 28}),
            "client_stolen": Injection(Sign(WARN, ("repeated_requests",), "asked for again")),
        },
    ),
    Played(
        "ft300",
        "force_torque",
        ("ft300",),
        {"driver": "ft300", "port": "{link}", "rate": 100.0, "publish_rate": 100.0},
        {
            **_serial(Sign(ERROR, says=SILENT), Sign(WARN, DAMAGE)),
            "jitter": Injection(Sign(ERROR, says="no data"), {"by": 0.5}),
            "saturate": Injection(Sign(ERROR, says="exceeds what the sensor can measure")),
        },
    ),
    Played(
        "gripper",
        "robotiq",
        ("robotiq",),
        {"port_name": "{link}", "auto_reactivate": True, "require_supervisor": False},
        {
            **_serial(
                Sign(ERROR, ("timeouts", "reconnects"), SILENT), Sign(WARN, DAMAGE), Sign(WARN, (*DAMAGE, "timeouts"))
            ),
            "jitter": Injection(Sign(WARN, ("timeouts",)), {"by": 0.6}),
            "duplicate": Injection(Sign(WARN, ("resyncs",)), {"p": 1.0}),
            "overtemp": Injection(Sign(ERROR, says="temperature|hot")),
        },
    ),
    Played(
        "hand",
        "ability_hand",
        ("ability_hand",),
        {"port_name": "{link}", "update_rate": 50.0, "require_supervisor": False},
        {
            **_serial(
                Sign(ERROR, ("timeouts", "reconnects"), SILENT), Sign(WARN, DAMAGE), Sign(WARN, (*DAMAGE, "timeouts"))
            ),
            "jitter": Injection(Sign(WARN, ("timeouts",)), {"by": 0.3}),
            "duplicate": Injection(Sign(WARN, ("resyncs",)), {"p": 1.0}),
            "overtemp": Injection(Sign(WARN, says="the hand protects itself")),
        },
    ),
    Played(
        "rangefinder",
        "rangefinder",
        ("rangefinder",),
        {"port_name": "{link}"},
        {
            **_serial(Sign(ERROR, says=SILENT), Sign(WARN, DAMAGE), baud=4800, delay=0.0),
            "jitter": Injection(Sign(ERROR, says="no data"), {"by": 1.5}, seconds=(2.0, 3.0)),
            "duplicate": Injection(Sign(WARN, ("dropped",)), {"p": 1.0}),
        },
    ),
    Played(
        "estop",
        "estop",
        ("estop",),
        {"port_name": "{link}"},
        {
            **_serial(Sign(ERROR, says=SILENT), Sign(WARN, DAMAGE), delay=0.0),
            "jitter": Injection(Sign(ERROR, says="no good heartbeat|no data"), {"by": 0.5}),
            "duplicate": Injection(Sign(WARN, ("repeated",)), {"p": 1.0}),
            "stuck_on": Injection(Sign(ERROR, ("repeated",), "no good heartbeat|no data")),
        },
    ),
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
            "disconnect": Injection(Sign(ERROR, ("reconnects",), "vanished|no camera|no emulated"), seconds=(0.5, 3.0)),
            KILLED: Injection(
                Sign(ERROR, ("reconnects",), "vanished|no camera|no emulated|frames|no data"), seconds=(0.5, 2.0)
            ),
            "drop": Injection(Sign(WARN, ("frame_gaps",)), {"p": 0.5}),
            "duplicate": Injection(Sign(WARN, ("dropped",)), {"p": 1.0}),
            "jitter": Injection(Sign(WARN, ("dropped",)), {"by": 0.2}),
            "freeze": Injection(Sign(WARN, ("freezes",), "repeats one image")),
            "stall_stream": Injection(Sign(ERROR, ("stalls",), "no depth frames|no data"), {"stream": "depth"}),
            "temp": Injection(Sign(ERROR, says="the ASIC has 75"), {"celsius": 75}, seconds=(1.2, 2.0)),
            "malformed": Injection(Sign(WARN, ("dropped",)), {"p": 0.5}),
        },
    ),
    Played(
        "microphone",
        "audio",
        ("audio", "--sound", "tone"),
        {"server": "unix:{link}"},
        {
            KILLED: Injection(Sign(ERROR, ("reconnects",), "."), seconds=(0.5, 2.0)),
            "unplug": Injection(Sign(ERROR, ("reconnects",), "."), seconds=(1.0, 3.0)),
            "jitter": Injection(Sign(ERROR, ("timeouts",), "no sound|no data"), {"by": 1.5}, seconds=(2.0, 3.0)),
            "stall": Injection(Sign(ERROR, ("timeouts",), "no sound|no data"), seconds=(1.0, 2.0)),
            "skip": Injection(Sign(WARN, ("overruns",)), {"by": 0.3}),
            "clip": Injection(Sign(WARN, says="samples are clipped")),
            "noise_floor": Injection(Sign(WARN, says="is it muted"), seconds=(3.0, 4.0)),
        },
    ),
]
