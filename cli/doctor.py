"""`refit doctor`: what this machine has and lacks; one line and a remedy per finding.

Uses the standard library alone and runs on Python 3.9, because it must work before, and when,
setting up fails. Whatever may crash or hang is tried in a process of its own.

Exit codes: 0 nothing essential is missing, 1 something essential is missing, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import glob
import grp
import importlib
import importlib.metadata
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

if __name__ == "__main__":
    # Run as a file, by a Python in which nothing is installed: modules are not looked for in the checkout.
    sys.path.append(str(Path(__file__).resolve().parent.parent))

from cli.doctor_network import network, security
from cli.findings import ESSENTIAL, NOTE, OK, ROOT, WARNING, Finding, in_environment

# --- the machine ----------------------------------------------------------------------------------


def system() -> Iterator[Finding]:
    name = _os_release().get("PRETTY_NAME", platform.system())
    status = OK if platform.system() == "Linux" else ESSENTIAL
    yield Finding(
        "system", status, f"{name}, {platform.machine()}", "" if status == OK else "Use Linux, or a Linux container."
    )
    version = platform.python_version()
    if sys.version_info[:2] in ((3, 11), (3, 12)):
        yield Finding("python", OK, version)
    else:
        yield Finding(
            "python",
            ESSENTIAL,
            f"{version}; refit needs 3.11 or 3.12",
            "Install one with venv and headers, or point REFIT_PYTHON at it.",
        )


def cores() -> Iterator[Finding]:
    count = len(os.sched_getaffinity(0))
    load = os.getloadavg()[0]
    if count < 2:
        yield Finding("cores", WARNING, f"{count}; plant, control and refit share it", "Give the machine two cores.")
    else:
        yield Finding("cores", OK, str(count))
    if load > count:
        yield Finding(
            "load", WARNING, f"{load:.1f} on {count} cores; deadlines will be missed", "End what else is running."
        )


def memory() -> Iterator[Finding]:
    available = _meminfo().get("MemAvailable", 0) / 2**20
    text = f"{available:.1f} GiB available"
    if available < 2:
        yield Finding("memory", WARNING, text, "Close other programs; building the kernels takes about 1 GiB.")
    else:
        yield Finding("memory", OK, text)


def disk() -> Iterator[Finding]:
    free = shutil.disk_usage(ROOT).free / 2**30
    needed = 1.0 if (ROOT / ".venv").exists() else 3.0  # the base takes 1 GiB, with all tiers 4
    if free < needed:
        yield Finding("disk", ESSENTIAL, f"{free:.1f} GiB free here, {needed:.0f} needed", "Free some space.")
    else:
        yield Finding("disk", OK, f"{free:.0f} GiB free")


def shared_memory() -> Iterator[Finding]:
    """Fast DDS moves messages through /dev/shm; containers often give it 64 MB."""
    try:
        size = shutil.disk_usage("/dev/shm").free / 2**20
        writable = os.access("/dev/shm", os.W_OK)
    except OSError:
        size, writable = 0.0, False
    if not writable:
        yield Finding(
            "shared memory",
            WARNING,
            "/dev/shm cannot be written; messages go through the network stack",
            "Mount /dev/shm (docker: --ipc=host).",
        )
    elif size < 32:
        yield Finding(
            "shared memory",
            WARNING,
            f"{size:.0f} MiB free in /dev/shm",
            "Remove stale fastrtps_* files there, or docker: --shm-size=256m.",
        )
    else:
        yield Finding("shared memory", OK, f"{size:.0f} MiB free in /dev/shm")


def gpu() -> Iterator[Finding]:
    if shutil.which("nvidia-smi"):
        answer = _run(["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"])
        if answer.returncode == 0 and answer.stdout.strip():
            yield Finding("gpu", OK, answer.stdout.strip().splitlines()[0])
            return
        yield Finding(
            "gpu",
            WARNING,
            "nvidia-smi is there but finds no working GPU",
            "Check that driver and kernel module match (reboot after an update).",
        )
        return
    yield Finding("gpu", NOTE, "none; everything runs on the CPU")


# --- tools and libraries --------------------------------------------------------------------------


def compiler() -> Iterator[Finding]:
    needed_to_build = not _stamps().get("interfaces", "") == "ready"
    for tool, use in (
        ("gcc", "fast physics kernels, message types"),
        ("g++", "message types"),
        ("cmake", "message types"),
        ("make", "message types"),
    ):
        path = shutil.which(tool)
        if path:
            first = _run([tool, "--version"]).stdout.splitlines()[:1]
            found = re.search(r"\d+\.\d+(\.\d+)?", first[0] if first else "")
            yield Finding(tool, OK, found.group() if found else "found")
        else:
            yield Finding(
                tool,
                ESSENTIAL if needed_to_build else WARNING,
                f"missing; needed for {use}",
                _apt("build-essential cmake"),
            )


def libraries() -> Iterator[Finding]:
    listed = _run(["ldconfig", "-p"]).stdout or _run(["/sbin/ldconfig", "-p"]).stdout
    for soname, package, use in (
        ("libEGL.so.1", "libegl1 libegl-mesa0 libgl1-mesa-dri", "pictures without a screen (MUJOCO_GL=egl)"),
        ("libOSMesa.so", "libosmesa6", "pictures in software (MUJOCO_GL=osmesa), where EGL does not work"),
        ("libusb-1.0.so.0", "libusb-1.0-0", "RealSense cameras"),
    ):
        if soname in listed:
            yield Finding(soname.partition(".so")[0], OK, "found")
        else:
            yield Finding(soname.partition(".so")[0], NOTE, f"missing; only for {use}", _apt(package))


# --- the environment ------------------------------------------------------------------------------


def set_up() -> Iterator[Finding]:
    """Which steps of setting up are done, as the script itself judges them."""
    stamps = _stamps()
    if not stamps:
        yield Finding("set-up", WARNING, "the script refit does not answer", f"Run it from {ROOT}.")
        return
    for step, command in (("packages", "./refit setup"), ("interfaces", "./refit setup"), ("package", "./refit setup")):
        ready = stamps.get(step) == "ready"
        yield Finding(
            f"set-up: {step}",
            OK if ready else WARNING,
            "up to date" if ready else "missing or out of date",
            "" if ready else f"Any command does it, or {command}",
        )
    for tier, ready in _tiers(stamps).items():
        yield Finding(
            f"set-up: tier {tier}",
            OK if ready else NOTE,
            "up to date" if ready else f"not installed; a command that needs it installs it, or ./refit setup {tier}",
        )
    building = ROOT / ".refit" / ("jazzy" if stamps.get("mode") == "jazzy" else "") / "building"
    if building.exists():
        yield Finding(
            "set-up", NOTE, "a build of the message types is running or was cut off", "The next start makes it anew."
        )


def versions() -> Iterator[Finding]:
    """Installed versions, and whether they are the locked ones."""
    if not in_environment():
        yield Finding(
            "packages",
            WARNING,
            "not inside refit's environment; versions and middleware were not looked at",
            "Run ./refit setup first.",
        )
        return
    stamps = _stamps()
    base = ("requirements.lock",) if stamps.get("mode") == "jazzy" else ("requirements.lock", "requirements-ros.lock")
    tiers = [f"requirements-{tier}.lock" for tier, ready in _tiers(stamps).items() if ready]
    for lock in (*base, *tiers):
        pins = locked(ROOT / lock)
        absent, other = [], []
        for name, version in pins.items():
            try:
                found = importlib.metadata.version(name).partition("+")[0]
            except importlib.metadata.PackageNotFoundError:
                absent.append(name)
                continue
            if found != version:
                other.append(f"{name} {found} (locked {version})")
        if absent:
            status = ESSENTIAL if lock in base else WARNING
            yield Finding(lock, status, f"missing: {', '.join(absent)}", "Remove .venv and start again.")
        elif other:
            yield Finding(
                lock,
                WARNING,
                f"other versions: {', '.join(other)}",
                "Remove .venv and start again for the locked ones.",
            )
        else:
            yield Finding(lock, OK, f"all {len(pins)} packages as locked")
    for name in ("mujoco", "casadi", "numpy", "torch"):
        try:
            yield Finding(name, OK, importlib.metadata.version(name))
        except importlib.metadata.PackageNotFoundError:
            if name != "torch":  # of the tier learning
                yield Finding(name, ESSENTIAL, "missing", "Remove .venv and start again.")


_ROS_CHECK = """
import subprocess, sys, time
import rclpy
from refit_interfaces.msg import ParameterSet

talker = "talk" in sys.argv
rclpy.init()
node = rclpy.create_node("refit_doctor_" + ("talker" if talker else "listener"))
if talker:
    publisher = node.create_publisher(ParameterSet, "refit_doctor", 1)
    for _ in range(1500):
        publisher.publish(ParameterSet(robot="any"))
        time.sleep(0.01)
else:
    from rclpy.utilities import get_rmw_implementation_identifier
    import simulation_interfaces.srv, tf2_msgs.msg
    print(get_rmw_implementation_identifier(), flush=True)
    heard = []
    node.create_subscription(ParameterSet, "refit_doctor", heard.append, 1)
    # A process of its own: within one, messages never touch the network.
    other = subprocess.Popen([sys.executable, "-P", "-c", sys.argv[1], sys.argv[1], "talk"])
    start = time.monotonic()
    while not heard and other.poll() is None and time.monotonic() - start < 15:
        rclpy.spin_once(node, timeout_sec=0.1)
    print(f"{time.monotonic() - start:.1f}" if heard else "silent", flush=True)
    other.kill()
    other.wait()
rclpy.shutdown()
"""


def middleware() -> Iterator[Finding]:
    """Is rclpy there with all message types, and do two processes find each other and talk?"""
    if not in_environment():
        return
    # A domain of its own, so that a robot running on this machine neither disturbs nor is disturbed.
    answer = _run([sys.executable, "-P", "-c", _ROS_CHECK, _ROS_CHECK], timeout=60,
                  env={**os.environ, "ROS_DOMAIN_ID": "97"})  # fmt: skip
    lines = answer.stdout.split()
    if not lines:
        yield Finding(
            "rclpy",
            ESSENTIAL,
            f"does not work: {_last_line(answer.stderr)}",
            "Remove .refit and .venv and start again.",
        )
        return
    distribution = os.environ.get("ROS_DISTRO", "jazzy, from wheels")
    yield Finding("rclpy", OK, f"{distribution}; {lines[0]}, all message types import")
    if len(lines) < 2 or lines[1] == "silent":
        yield Finding(
            "discovery",
            ESSENTIAL,
            "two processes on this machine did not hear each other within 15 s",
            "Allow UDP on the loopback device (ip link set lo up; firewall), or set ROS_AUTOMATIC_DISCOVERY_RANGE=LOCALHOST.",
        )
    else:
        yield Finding("discovery", OK, f"a new process was heard after {lines[1]} s")


_RENDER_CHECK = """
import mujoco
model = mujoco.MjModel.from_xml_string(
    "<mujoco><worldbody><light pos='0 0 2'/><geom type='sphere' size='.2'/></worldbody></mujoco>")
data = mujoco.MjData(model)
mujoco.mj_forward(model, data)
renderer = mujoco.Renderer(model, 64, 64)
renderer.update_scene(data)
assert renderer.render().max() > 0, "the picture is black"
print("rendered")
"""


def rendering() -> Iterator[Finding]:
    """Each back end draws a sphere."""
    if not in_environment():
        return
    working, broken = [], []
    for backend in ("egl", "osmesa"):
        answer = _run([sys.executable, "-P", "-c", _RENDER_CHECK], timeout=60, env={**os.environ, "MUJOCO_GL": backend})
        (working if "rendered" in answer.stdout else broken).append(backend)
    if working:
        yield Finding("rendering", OK, f"{', '.join(working)} work" if len(working) > 1 else f"{working[0]} works")
    else:
        yield Finding(
            "rendering",
            NOTE,
            "neither egl nor osmesa draws a picture; only cameras and videos need one",
            _apt("libegl1 libegl-mesa0 libgl1-mesa-dri libosmesa6"),
        )


# --- devices --------------------------------------------------------------------------------------


def serial_ports() -> Iterator[Finding]:
    ports = sorted(glob.glob("/dev/ttyUSB*") + glob.glob("/dev/ttyACM*"))
    if not ports:
        yield Finding("serial ports", NOTE, "none (no /dev/ttyUSB* or /dev/ttyACM*); scanner and servos need one")
        return
    closed = [port for port in ports if not os.access(port, os.R_OK | os.W_OK)]
    if closed:
        yield Finding(
            "serial ports",
            WARNING,
            f"no permission for {', '.join(closed)}{_group_hint('dialout')}",
            "sudo usermod -aG dialout $USER, then log in again.",
        )
    else:
        yield Finding("serial ports", OK, ", ".join(ports))


def cameras() -> Iterator[Finding]:
    devices = sorted(glob.glob("/dev/video*"))
    if not devices:
        yield Finding("cameras", NOTE, "none (no /dev/video*)")
        return
    closed = [device for device in devices if not os.access(device, os.R_OK | os.W_OK)]
    if closed:
        yield Finding(
            "cameras",
            WARNING,
            f"no permission for {', '.join(closed)}{_group_hint('video')}",
            "sudo usermod -aG video $USER, then log in again.",
        )
    else:
        yield Finding("cameras", OK, ", ".join(devices))


#: USB vendor:product prefixes of devices that refit knows
_KNOWN_USB = {
    "8086:0b": "RealSense",
    "8086:0a": "RealSense",
    "0403:6014": "U2D2 servo adapter",
    "15d1:0000": "Hokuyo scanner",
    "0403:6015": "FTDI serial adapter",
}


def usb() -> Iterator[Finding]:
    devices = []
    for folder in sorted(glob.glob("/sys/bus/usb/devices/*")):
        try:
            vendor = Path(folder, "idVendor").read_text().strip()
            product = Path(folder, "idProduct").read_text().strip()
            bus, number = (int(Path(folder, name).read_text()) for name in ("busnum", "devnum"))
        except (OSError, ValueError):
            continue
        devices.append((f"{vendor}:{product}", f"/dev/bus/usb/{bus:03d}/{number:03d}"))
    known = [(label, node) for key, node in devices for prefix, label in _KNOWN_USB.items() if key.startswith(prefix)]
    closed = [label for label, node in known if os.path.exists(node) and not os.access(node, os.R_OK | os.W_OK)]
    if closed:
        yield Finding(
            "usb",
            WARNING,
            f"no permission for {', '.join(closed)}",
            "Add a udev rule for the device (its vendor ships one), then plug it in again.",
        )
    elif known:
        yield Finding("usb", OK, ", ".join(label for label, _ in known))
    else:
        yield Finding("usb", NOTE, f"{len(devices)} devices, none that refit knows")


def _group_hint(group: str) -> str:
    try:
        member = grp.getgrnam(group).gr_gid in (*os.getgroups(), os.getegid())
    except KeyError:
        return f"; there is no group {group}"
    return "" if member else f"; you are not in group {group}"


# --- helpers --------------------------------------------------------------------------------------


def locked(path: Path) -> dict[str, str]:
    """{name: version} of a lock file."""
    pins = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        name, separator, version = line.partition("==")
        if separator and not line.startswith("#"):
            pins[name.strip()] = version.strip()
    return pins


_STAMPS: dict[str, str] = {}


def _stamps() -> dict[str, str]:
    if not _STAMPS:
        answer = _run(["sh", str(ROOT / "refit"), "stamps"])
        _STAMPS.update(line.split(" ", 1) for line in answer.stdout.splitlines() if " " in line)
    return _STAMPS


def _tiers(stamps: dict[str, str]) -> dict[str, bool]:
    """Whether each tier is installed as locked, as the script itself judges it."""
    return {key[len("packages-") :]: state == "ready" for key, state in stamps.items() if key.startswith("packages-")}


def _run(
    command: list[str], timeout: float = 20.0, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command, capture_output=True, text=True, timeout=timeout, env=env, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess(command, 1, "", str(error))


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "no answer"


def _apt(packages: str) -> str:
    prefix = "" if os.geteuid() == 0 else "sudo "
    return f"{prefix}apt-get install {packages}"


def _os_release() -> dict[str, str]:
    try:
        lines = Path("/etc/os-release").read_text().splitlines()
    except OSError:
        return {}
    return {key: value.strip('"') for key, _, value in (line.partition("=") for line in lines)}


def _meminfo() -> dict[str, int]:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return {}
    return {key: int(value.split()[0]) for key, _, value in (line.partition(":") for line in lines) if value.split()}


CHECKS: tuple[Callable[[], Iterator[Finding]], ...] = (
    system, cores, memory, disk, shared_memory, gpu,
    compiler, libraries,
    set_up, versions, middleware, network, security, rendering,
    serial_ports, cameras, usb,
)  # fmt: skip


def findings(checks: tuple[Callable[[], Iterator[Finding]], ...] = CHECKS) -> Iterator[Finding]:
    """All findings, one check after the other. A check that fails itself is a finding too."""
    for check in checks:
        try:
            yield from check()
        except Exception as error:
            yield Finding(check.__name__, WARNING, f"could not be looked at: {type(error).__name__}: {error}")


_MARKS = {OK: ("✓", "32"), NOTE: ("·", "2"), WARNING: ("!", "33"), ESSENTIAL: ("✗", "1;31")}


def _line(finding: Finding, colour: bool) -> str:
    mark, code = _MARKS[finding.status]
    remedy = f"  → {finding.remedy}" if finding.remedy else ""
    text = f"{mark} {finding.topic:<22} {finding.text}{remedy}"
    return f"\033[{code}m{mark}\033[0m{text[1:]}" if colour else text


def devices(argv: list[str]) -> int:
    """`--devices`: drivers do the looking, so the environment is needed."""
    if not in_environment():
        print("refit doctor: --devices needs the environment, which is not set up: ./refit setup", file=sys.stderr)
        return 2
    return importlib.import_module("cli.doctor_devices").main(argv)


def main(argv: list[str] | None = None) -> int:
    argv = sys.argv[1:] if argv is None else argv
    if "--devices" in argv:
        return devices([word for word in argv if word != "--devices"])
    parser = argparse.ArgumentParser(
        prog="refit doctor", description="What this machine has and lacks, with a remedy for each finding."
    )
    parser.add_argument(
        "--json",
        nargs="?",
        const="-",
        metavar="FILE",
        help="write the findings as JSON to FILE, or instead of the list to the screen",
    )
    parser.add_argument(
        "--devices",
        action="store_true",
        help="look at devices instead, against what a robot expects (--devices --help)",
    )
    try:
        options = parser.parse_args(argv)
    except SystemExit as ending:
        return int(ending.code or 0)
    quiet = options.json == "-"
    found = []
    for finding in findings():
        found.append(finding)
        if not quiet:
            print(_line(finding, sys.stdout.isatty()), flush=True)
    missing = [finding.topic for finding in found if finding.status == ESSENTIAL]
    if options.json:
        text = json.dumps(
            {"passed": not missing, "findings": [asdict(finding) for finding in found]}, indent=2, ensure_ascii=False
        )
        if quiet:
            print(text)
        else:
            try:
                Path(options.json).write_text(text + "\n", encoding="utf-8")
            except OSError as error:
                print(f"refit doctor: cannot write {options.json}: {error.strerror}", file=sys.stderr)
                return 2
    if not quiet:
        print(f"\nEssential and missing: {', '.join(missing)}." if missing else "\nNothing essential is missing.")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
