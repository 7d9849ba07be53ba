"""The doctor finishes its round whatever it meets, names a remedy, and works before anything is set up."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cli import doctor, doctor_network
from cli.doctor import Finding
from cli.findings import ESSENTIAL, NOTE, OK, WARNING

ROOT = Path(__file__).resolve().parents[2]


def use(monkeypatch, *found):
    monkeypatch.setattr(doctor, "findings", lambda: iter(found))


@pytest.mark.parametrize(("status", "code"), [(OK, 0), (NOTE, 0), (WARNING, 0), (ESSENTIAL, 1)])
def test_only_what_is_essential_fails(monkeypatch, capsys, status, code):
    use(monkeypatch, Finding("a", OK, "fine"), Finding("b", status, "text", "do this"))
    assert doctor.main([]) == code
    out = capsys.readouterr().out
    assert "→ do this" in out and ("Essential and missing: b." in out) == (code == 1)


def test_json(monkeypatch, capsys, tmp_path):
    use(monkeypatch, Finding("a", ESSENTIAL, "gone", "buy one"))
    assert doctor.main(["--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document == {
        "passed": False,
        "findings": [{"topic": "a", "status": "essential", "text": "gone", "remedy": "buy one"}],
    }
    assert doctor.main(["--json", str(tmp_path / "out.json")]) == 1
    assert json.loads((tmp_path / "out.json").read_text()) == document
    assert doctor.main(["--json", str(tmp_path / "no" / "out.json")]) == 2
    assert doctor.main(["--bad"]) == 2


def test_a_check_that_fails_is_a_finding():
    def broken():
        yield Finding("a", OK, "fine")
        raise RuntimeError("no /proc here")

    found = list(doctor.findings((broken, lambda: iter([Finding("b", OK, "fine")]))))
    assert [finding.topic for finding in found] == ["a", "broken", "b"]
    assert found[1].status == WARNING and "no /proc here" in found[1].text


def test_needs_nothing_but_the_standard_library():
    """It must run with any Python when nothing is installed."""
    ours = {
        *("cli.doctor", "cli.doctor_network", "cli.findings", "cli.udp_sockets"),
        *("config.network", "config.share", "nodes.framework.security"),
    }
    for module in ours:
        for node in ast.walk(ast.parse((ROOT / f"{module.replace('.', '/')}.py").read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                assert name in ours or name.partition(".")[0] in sys.stdlib_module_names, name
    done = subprocess.run(
        [sys.executable, "-I", "-S", str(ROOT / "cli" / "doctor.py"), "--json"],
        capture_output=True, text=True, timeout=300, env={"PATH": os.environ["PATH"]},
    )  # fmt: skip
    assert json.loads(done.stdout)["findings"], done.stderr


def test_this_machine_in_full():
    """Every check once for real; whatever is not fine says what to do."""
    found = list(doctor.findings())
    topics = {finding.topic for finding in found}
    assert {
        "system",
        "python",
        "cores",
        "gcc",
        "rclpy",
        "discovery",
        "rendering",
        "serial ports",
        "usb",
        "gpu",
    } <= topics
    for finding in found:
        assert "could not be looked at" not in finding.text, finding
        if finding.status in (WARNING, ESSENTIAL):
            assert finding.remedy, finding
    assert all(finding.status != ESSENTIAL for finding in found), found


def test_serial_port_without_permission(monkeypatch):
    monkeypatch.setattr(doctor.glob, "glob", lambda pattern: ["/dev/ttyUSB0"] if "USB" in pattern else [])
    monkeypatch.setattr(doctor.os, "access", lambda *_: False)
    (finding,) = doctor.serial_ports()
    assert finding.status == WARNING and "/dev/ttyUSB0" in finding.text and "dialout" in finding.remedy


def test_full_disk_is_essential(monkeypatch):
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 2**28})())
    (finding,) = doctor.disk()
    assert finding.status == ESSENTIAL


def test_versions_other_than_locked(monkeypatch):
    monkeypatch.setattr(doctor, "in_environment", lambda: True)
    monkeypatch.setattr(
        doctor,
        "locked",
        lambda path: {"numpy": "0.1", "no-such-package": "1"} if path.name == "requirements.lock" else {},
    )
    first = next(doctor.versions())
    assert first.status == ESSENTIAL and "no-such-package" in first.text
    monkeypatch.setattr(doctor, "locked", lambda path: {"numpy": "0.1"} if path.name == "requirements.lock" else {})
    first = next(doctor.versions())
    assert first.status == WARNING and "locked 0.1" in first.text


def test_tiers_are_reported_and_checked(monkeypatch):
    stamps = {"mode": "wheels", "packages": "ready", "packages-learning": "missing", "packages-inference": "ready"}
    monkeypatch.setattr(doctor, "_stamps", lambda: stamps)
    monkeypatch.setattr(doctor, "in_environment", lambda: True)
    found = {finding.topic: finding for finding in doctor.set_up()}
    assert found["set-up: tier inference"].status == OK
    assert (
        found["set-up: tier learning"].status == NOTE
        and "./refit setup learning" in found["set-up: tier learning"].text
    )
    pins = {
        "requirements-inference.lock": {"no-such-package": "1"},
        "requirements-learning.lock": {"nor-this-one": "1"},
    }
    monkeypatch.setattr(doctor, "locked", lambda path: pins.get(path.name, {}))
    missing = [finding for finding in doctor.versions() if "missing" in finding.text]
    assert [(finding.topic, finding.status) for finding in missing] == [("requirements-inference.lock", WARNING)]


def test_lock_file_reader():
    pins = doctor.locked(ROOT / "requirements.lock")
    assert pins["mujoco"] == "4.0.0" and all(version[0].isdigit() for version in pins.values())


@pytest.mark.parametrize(
    ("given", "status", "text"),
    [
        ({}, OK, "sockets on 127.0.0.1"),
        ({"ROS_AUTOMATIC_DISCOVERY_RANGE": "SUBNET"}, NOTE, "open on purpose"),
        ({"FASTRTPS_DEFAULT_PROFILES_FILE": "/dev/null"}, WARNING, "its sockets are on 0.0.0.0"),
    ],
)
def test_the_network_is_judged_by_the_sockets_of_a_participant(monkeypatch, given, status, text):
    pytest.importorskip("rclpy")
    monkeypatch.setattr(doctor_network, "in_environment", lambda: True)
    for name in ("ROS_AUTOMATIC_DISCOVERY_RANGE", "FASTRTPS_DEFAULT_PROFILES_FILE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    (finding,) = doctor_network.network()
    assert finding.status == status and text in finding.text, finding


@pytest.mark.parametrize(("why", "status"), [("", OK), ("the middleware was built without security", NOTE)])
def test_security_is_judged_by_a_trial(monkeypatch, why, status):
    monkeypatch.setattr(doctor_network, "in_environment", lambda: True)
    monkeypatch.setattr(doctor_network, "middleware_lacks", lambda: why)
    (finding,) = doctor_network.security()
    assert finding.status == status and why in finding.text
