"""Devices found against devices expected: ports from a faked sysfs, answers from emulators on real protocols."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from cli import device_scan, doctor, doctor_devices
from cli.device_scan import Answer, Port, probe, serial_ports
from cli.doctor_devices import PORTS, Expectation, expectations, judge_serial, judge_servos
from cli.findings import ESSENTIAL, NOTE, OK, WARNING
from hardware.emulation.process import EmulatorProcess
from hardware.link import Disconnected

ROOT = Path(__file__).resolve().parents[2]


def statuses(found):
    return {each.topic: each.status for each in found}


def remedy(found, topic):
    return next(each.remedy for each in found if each.topic == topic and each.status != OK)


# -- a machine of files ----------------------------------------------------------------------------


@pytest.fixture
def machine(tmp_path):
    """(dev, sysfs): a U2D2 with its factory latency on ttyUSB0, a Hokuyo on ttyACM0, an adapter without names on ttyUSB1."""
    dev, sysfs = tmp_path / "dev", tmp_path / "sys"
    (dev / "serial/by-id").mkdir(parents=True)
    for tty, usb, port in (("ttyUSB0", "0403:6014", "1-1"), ("ttyACM0", "15d1:0000", "1-2"), ("ttyUSB1", "", "1-3")):
        (dev / tty).touch()
        interface = sysfs / "devices/pci0/usb1" / port / f"{port}:1.0" / tty
        interface.mkdir(parents=True)
        (sysfs / "class/tty" / tty).mkdir(parents=True)
        (sysfs / "class/tty" / tty / "device").symlink_to(interface)
        if usb:
            for name, value in zip(
                ("idVendor", "idProduct", "product"), (*usb.split(":"), f"product of {tty}"), strict=True
            ):
                (sysfs / "devices/pci0/usb1" / port / name).write_text(value + "\n")
    (dev / "serial/by-id/usb-FTDI_FT1-if00-port0").symlink_to(dev / "ttyUSB0")
    for tty, latency in (("ttyUSB0", "16\n"), ("ttyUSB1", "1\n")):
        (sysfs / "bus/usb-serial/devices" / tty).mkdir(parents=True)
        (sysfs / "bus/usb-serial/devices" / tty / "latency_timer").write_text(latency)
    return dev, sysfs


def test_ports_and_their_adapters(machine):
    dev, sysfs = machine
    scanner, u2d2, plain = serial_ports(dev, sysfs)
    assert (u2d2.path, u2d2.by_id) == (f"{dev}/ttyUSB0", f"{dev}/serial/by-id/usb-FTDI_FT1-if00-port0")
    assert (u2d2.usb, u2d2.product, u2d2.latency) == ("0403:6014", "product of ttyUSB0", 16)
    assert (scanner.usb, scanner.by_id, scanner.latency) == ("15d1:0000", "", None)
    assert (plain.usb, plain.product, plain.latency) == ("", "", 1)
    assert u2d2.is_at(u2d2.by_id) and not u2d2.is_at(plain.path)
    assert serial_ports(dev / "none", sysfs) == []


def test_latency_and_permission(machine, monkeypatch):
    dev, sysfs = machine
    _, u2d2, plain = serial_ports(dev, sysfs)
    found = list(doctor_devices.look_at_port(u2d2, False))
    assert [each.status for each in found] == [OK, WARNING] and "by-id" in found[0].found
    assert (
        "/sys/bus/usb-serial/devices/ttyUSB0/latency_timer" in found[1].remedy
        and "16 ms" in found[1].found
        and "udev" in found[1].remedy
    )
    assert [each.status for each in doctor_devices.look_at_port(plain, False)] == [OK]
    monkeypatch.setattr(device_scan.os, "access", lambda *_: False)
    monkeypatch.setattr(device_scan, "_group", lambda path: "dialout")
    closed = serial_ports(dev, sysfs)[1]
    for expected, status in ((False, WARNING), (True, ESSENTIAL)):
        (finding,) = doctor_devices.look_at_port(closed, expected)
        assert finding.status == status and "sudo usermod -aG dialout $USER" in finding.remedy
    # What may not be opened is not asked either.
    assert len(list(doctor_devices.look_at_serial([closed], [], (), print))) == 1


@pytest.fixture
def bare(monkeypatch):
    """Neither cameras nor audio inputs nor a network."""
    for name in ("cameras", "audio_inputs"):
        monkeypatch.setattr(doctor_devices, name, lambda *_: [])

    def nobody(address, http_port, timeout):
        raise Disconnected(f"{address} does not answer")

    monkeypatch.setattr(doctor_devices, "net_ft", nobody)


def test_nothing_there_and_nothing_expected(bare, tmp_path, capsys):
    out = tmp_path / "out.json"
    assert doctor.main(["--devices", "--dev", str(tmp_path), "--json", str(out)]) == 0
    document = json.loads(out.read_text())
    assert document["passed"] and {each["status"] for each in document["findings"]} == {NOTE}
    assert "none (no /dev/ttyUSB* or /dev/ttyACM*)" in capsys.readouterr().out
    assert doctor.main(["--devices", "--dev", str(tmp_path), "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out) == document


def test_everything_expected_and_nothing_there(bare, tmp_path, capsys):
    assert doctor.main(["--devices", "--robot", "dxl_arm", "--dev", str(tmp_path), "--json", "-"]) == 1
    document = json.loads(capsys.readouterr().out)
    missing = {each["topic"]: each for each in document["findings"] if each["status"] == ESSENTIAL}
    assert not document["passed"] and set(missing) == {"dynamixel", "urg", "ft_sensor", "camera"}
    assert all(each["remedy"] and each["expected"] for each in missing.values())
    assert "set port_name" in missing["dynamixel"]["remedy"] and "set serial_port" in missing["urg"]["remedy"]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--robot", "panda_"], "those that have: dxl_arm"),
        (["--robot", "panda"], "has no devices"),
        (["--port", "/dev/none"], "no port /dev/none"),
        (["--robot", "dxl_arm", "--params", __file__], "is no ROS parameter file"),
    ],
)
def test_wrong_usage(bare, words, text, capsys):
    assert doctor.main(["--devices", *words]) == 2
    assert text in capsys.readouterr().err
    assert doctor.main(["--devices", "--bad"]) == 2


def test_without_the_environment_it_says_so_in_a_line():
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(ROOT / "cli" / "doctor.py"), "--devices"],
        capture_output=True,
        text=True,
        env={"PATH": os.environ["PATH"]},
        timeout=300,
    )
    inside = done.returncode == 0 or "ModuleNotFoundError" in done.stderr
    if inside:
        pytest.skip("this Python takes itself for the environment's even with -I -S")
    assert (
        done.returncode == 2 and done.stdout == "" and done.stderr.count("\n") == 1 and "./refit setup" in done.stderr
    )


# -- what a robot expects --------------------------------------------------------------------------


def test_the_arm_expects_what_its_files_say(tmp_path):
    arm = {each.node: each for each in expectations("dxl_arm")}
    values = yaml.safe_load((ROOT / "config/robots/dxl_arm/nodes.yaml").read_text())["/**/dynamixel"]["ros__parameters"]
    servos = arm["dynamixel"]
    assert (servos.where, servos.baud, servos.protocol) == (values["port_name"], values["baud_rate"], 2.0)
    assert servos.servos == {joint["id"]: (name, joint["model"]) for name, joint in values["joints"].items()}
    assert (arm["urg"].kind, arm["ft_sensor"].kind, arm["camera"].kind) == ("urg", "netft", "realsense")
    more = tmp_path / "more.yaml"
    more.write_text(
        "/**/dynamixel: {ros__parameters: {port_name: /dev/mine, joints.waist.model: XL430-W250}}\n"
        "/**/ft_sensor: {ros__parameters: {driver: ft300, port: /dev/ft}}\n/**/urg: {ros__parameters: {ip_address: 10.0.0.2}}\n"
    )
    arm = {each.node: each for each in expectations("dxl_arm", more)}
    assert arm["dynamixel"].where == "/dev/mine" and arm["dynamixel"].servos[1] == ("waist", "XL430-W250")
    assert (arm["ft_sensor"].kind, arm["ft_sensor"].where, arm["urg"].kind) == ("ft300", "/dev/ft", "")


def test_defaults_are_the_nodes_own():
    pytest.importorskip("rclpy")
    from nodes.devices.dynamixel_config import DynamixelConfig
    from nodes.devices.force_torque import ForceTorqueConfig
    from nodes.devices.robotiq import RobotiqConfig
    from nodes.devices.urg import UrgConfig
    from nodes.framework.config import settings

    classes = {
        "dynamixel": DynamixelConfig,
        "urg": UrgConfig,
        "robotiq": RobotiqConfig,
        "force_torque": ForceTorqueConfig,
    }
    for executable, (name, default) in PORTS.items():
        assert settings(classes[executable])[name].default == default
    assert settings(DynamixelConfig)["baud_rate"].default == 57600
    assert settings(ForceTorqueConfig)["address"].default == doctor_devices.NET_FT_ADDRESS


SERVOS = Expectation(
    "arm", "dynamixel", "/dev/a", 1_000_000, 2.0, {1: ("waist", "XM430-W350"), 2: ("elbow", "XM430-W350")}
)


def servo(number, model="XM430-W350", baud=1_000_000, protocol=2.0):
    return Answer("dynamixel", model, "", "45", number, baud, protocol)


@pytest.mark.parametrize(
    ("answers", "elsewhere", "topic", "text"),
    [
        ([servo(1)], {}, "arm: elbow", "check the servos' supply"),
        ([servo(1)], {"/dev/b": [servo(2)]}, "arm: elbow", "answers on /dev/b: set port_name"),
        ([servo(1), servo(2, "XL430-W250")], {}, "arm: elbow", "joints.elbow.model to XL430-W250"),
        ([servo(1), servo(2, baud=57600)], {}, "arm: elbow", "set baud_rate to 57600"),
        ([servo(1), servo(2, protocol=1.0)], {}, "arm: elbow", "protocol_version to 1"),
        ([servo(1), servo(2), servo(9)], {}, "arm: id 9", "take it off the bus"),
    ],
)
def test_each_difference_has_its_remedy(answers, elsewhere, topic, text):
    found = list(judge_servos(SERVOS, answers, elsewhere))
    assert statuses(found)["arm: waist"] == OK and text in remedy(found, topic)
    assert len([each for each in found if each.status != OK]) == 1


def test_the_wrong_device_on_a_port():
    gripper = Answer("robotiq", "Robotiq 2F-85")
    (finding,) = judge_serial(SERVOS, [gripper], {"/dev/b": [servo(1)]})
    assert finding.status == ESSENTIAL and "2F-85" in finding.found and "/dev/b: set port_name" in finding.remedy
    (finding,) = judge_serial(Expectation("hand", "robotiq", "/dev/b"), [], {})
    assert finding.found == "no answer" and finding.remedy == "check power and cable"


# -- emulators -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("device", "words", "kind", "model", "serial"),
    [
        ("robotiq", [], "robotiq", "Robotiq 2F-85", ""),
        ("ft300", ["--serial", "FTS-4321"], "ft300", "Robotiq FT-300", "FTS-4321"),
        ("urg", ["--serial", "H7654321"], "urg", "URG-04LX", "H7654321"),
        ("urg", ["--rs232", "57600", "--serial", "H7654321"], "urg", "URG-04LX", "H7654321"),
    ],
)
def test_whoever_is_on_a_port_is_found(device, words, kind, model, serial):
    with EmulatorProcess(device, *words) as emulator:
        (answer,) = probe(Port(str(emulator.link)), first=[kind])
    assert (answer.kind, answer.model, answer.serial) == (kind, model, serial)


MIXED = """
- {id: 1, model: XM430-W350, registers: {baud_rate: 3}}
- {id: 2, model: XM430-W350, registers: {baud_rate: 1}}
- {id: 3, model: XL430-W250, registers: {baud_rate: 3}}
- {id: 9, model: MX-28, registers: {baud_rate: 34}}
"""


def test_a_bus_of_servos_against_the_arm(tmp_path, capsys):
    """Five of seven missing, one at another rate, one of another model, one of Protocol 1.0 too many."""
    params = tmp_path / "params.yaml"
    with EmulatorProcess("dynamixel", "--servos", MIXED) as emulator:
        params.write_text(f"/**/dynamixel: {{ros__parameters: {{port_name: {emulator.link}, baud_rate: 1000000}}}}\n")
        code = doctor.main(
            [
                "--devices",
                "--robot",
                "dxl_arm",
                "--params",
                str(params),
                "--port",
                str(emulator.link),
                "--baud",
                "1000000,57600",
                "--json",
                "-",
            ]
        )
    document = json.loads(capsys.readouterr().out)
    assert code == 1 and not document["passed"]
    found = {each["topic"]: each for each in document["findings"]}
    assert found["dynamixel: waist"]["status"] == OK and "id 1 XM430-W350" in found["dynamixel: waist"]["found"]
    assert (
        "57600 baud" in found["dynamixel: shoulder"]["found"]
        and "set baud_rate to 57600" in found["dynamixel: shoulder"]["remedy"]
    )
    assert "XL430-W250" in found["dynamixel: elbow"]["found"] and found["dynamixel: elbow"]["status"] == ESSENTIAL
    for joint in ("forearm_roll", "wrist_pitch", "wrist_roll", "gripper"):
        assert found[f"dynamixel: {joint}"]["found"] == "no answer"
    assert (
        found["dynamixel: id 9"]["status"] == WARNING and "protocol 1, 57600 baud" in found["dynamixel: id 9"]["found"]
    )
    assert "urg" not in found  # --port is about that port alone


def test_a_bus_as_expected_is_asked_at_its_own_rate_only(tmp_path, capsys):
    params = tmp_path / "params.yaml"
    tried = []
    with EmulatorProcess("dynamixel", "--servos", str(ROOT / "config/robots/dxl_arm/servos.yaml")) as emulator:
        params.write_text(f"/**/dynamixel: {{ros__parameters: {{port_name: {emulator.link}}}}}\n")
        assert (
            doctor.main(["--devices", "--robot", "dxl_arm", "--params", str(params), "--port", str(emulator.link)]) == 0
        )
        (bus,) = [each for each in expectations("dxl_arm", params) if each.node == "dynamixel"]
        probe(Port(str(emulator.link)), ["dynamixel"], bus.baud, bus.protocol, bus.servos, say=tried.append)
    out = capsys.readouterr().out
    assert "All is as expected." in out and "wrist_roll" in out and "→" not in out
    assert len(tried) == 1 and "4000000 baud" in tried[0]


def test_a_port_in_use_is_said_so(capsys):
    import serial

    with EmulatorProcess("robotiq") as emulator, serial.Serial(str(emulator.link), 115200, exclusive=True):
        assert doctor.main(["--devices", "--port", str(emulator.link), "--json", "-"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert any("in use by another process" in each["found"] and each["remedy"] for each in document["findings"])


def test_a_sensor_on_the_network_and_a_microphone(tmp_path, monkeypatch, capsys):
    if shutil.which("pulseaudio") is None:
        pytest.skip("pulseaudio not installed")
    pytest.importorskip("sounddevice", exc_type=OSError)
    monkeypatch.setattr(
        doctor_devices, "cameras", lambda: [{"model": "D435I", "serial": "123", "firmware": "5", "usb": "2.1"}]
    )
    with (
        EmulatorProcess("netft", "--ip", "127.0.38.1", "--http-port", "8038", "--serial", "FT77") as sensor,
        EmulatorProcess("audio") as sound,
    ):
        del sensor
        params = tmp_path / "params.yaml"
        params.write_text(
            "/**/ft_sensor: {ros__parameters: {address: 127.0.38.1, http_port: 8038}}\n"
            "/**/camera: {ros__parameters: {serial_no: _999}}\n"
        )
        code = doctor.main(
            ["--devices", "--robot", "dxl_arm", "--params", str(params), "--dev", str(tmp_path), "--json", "-"]
        )
        found = {each["topic"]: each for each in json.loads(capsys.readouterr().out)["findings"]}
        heard = list(
            doctor_devices.look_at_audio(
                [
                    Expectation("stethoscope", "audio", "pulse", options={"server": f"unix:{sound.link}"}),
                    Expectation("other", "audio", "Thinklabs", options={"server": f"unix:{sound.link}"}),
                ]
            )
        )
    assert code == 1 and found["ft_sensor"]["status"] == OK and "FT77" in found["ft_sensor"]["found"]
    assert found["RealSense"]["status"] == WARNING and "USB 3" in found["RealSense"]["remedy"]
    assert found["camera"]["status"] == ESSENTIAL and "set serial_no to _123" in found["camera"]["remedy"]
    assert [each.status for each in heard] == [OK, ESSENTIAL] and "pulse" in heard[1].found
