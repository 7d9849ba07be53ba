"""The makers' own C and C++ libraries, built here and unmodified, against the emulators.

They are in no package registry: name a copy of each (docs/hardware.md, "The makers' libraries").
"""

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from hardware.emulation.process import EmulatorProcess
from hardware.urg.scene import Room
from hardware.urg.sensor import STEPS

BAUD = 1_000_000
SERVOS = "[{id: 1, model: XM430-W350}, {id: 2, model: XM430-W350, load_inertia: 0.005}, {id: 5, model: XL430-W250}]"
#: of a hundred reads of a group, so many are answered at once; the others miss the library's time-out on a machine that others use
ANSWERED = 90
#: sources of the scanner's library; the others are included by these or are for another system
URG_PARTS = ("sensor", "utils", "debug", "connection", "ring_buffer", "serial", "serial_utils", "tcpclient")


def copy_of(variable: str, library: str) -> Path:
    """The folder that an environment variable names; skips the test where it names none."""
    if not os.environ.get(variable):
        pytest.skip(f"{variable} names no copy of {library}")
    return Path(os.environ[variable])


def built(compiler: str, program: Path, sources: list[Path], include: list[Path], folder: Path, *options: str) -> Path:
    """A client and a maker's library, compiled into one program."""
    found = shutil.which(compiler)
    if found is None:
        pytest.skip(f"no {compiler} here")
    out = folder / program.stem
    words = [found, "-O1", *options, *(f"-I{path}" for path in include), program, *sources, "-lm", "-o", out]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return out


def answers(program: Path, *words: object) -> dict[str, list[str]]:
    """What a client printed: question -> words of the answer."""
    done = subprocess.run([str(program), *map(str, words)], capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stdout + done.stderr
    return {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines()}


@pytest.fixture(scope="module")
def bus(tmp_path_factory):
    """What DynamixelSDK finds on an emulated bus."""
    library = copy_of("REFIT_DYNAMIXEL_SDK", "the C++ DynamixelSDK") / "c++"
    include = [library / "include", library / "include/dynamixel_sdk"]
    sources = sorted((library / "src/dynamixel_sdk").glob("*.cpp"))
    program = Path(__file__).with_name("dynamixel_client.cpp")
    client = built("g++", program, sources, include, tmp_path_factory.mktemp("sdk"))
    with EmulatorProcess("dynamixel", "--servos", SERVOS, "--baud", BAUD, "--return-delay", 0) as emulator:
        said = {name: [int(word) for word in words] for name, words in answers(client, emulator.link, BAUD).items()}
        yield said, emulator.stats()


def test_dynamixel_sdk_finds_and_commands_the_servos(bus):
    said, stats = bus
    assert [said[f"ping_{id}"] for id in (1, 2, 5)] == [[1020, 0], [1020, 0], [1060, 0]]
    assert said["broadcast_ping"] == [1, 2, 5]
    assert said["gain"] == [555, 0] and said["refused"] == [4]
    assert said["action"] == [1, 900, 900]
    assert said["clear_multi_turn"][0] == 0 and 0 <= said["clear_multi_turn"][1] < 4096
    assert said["factory_reset"] == [0, 72]
    assert said["reboot"] == [0, 800]
    assert stats["unstuffed"] == 0


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("sync_read", [4464, 123, 32000]),
        ("fast_sync_read", [4464, 123, 32000]),
        ("bulk_read", [777, 1]),
        ("fast_bulk_read", [777, 1]),
    ],
)
def test_dynamixel_sdk_reads_groups(bus, name, values):
    said, _ = bus
    answered, rounds = said[f"{name}_rounds"]
    assert said[name] == values and rounds == 100 and answered >= ANSWERED


@pytest.fixture(scope="module")
def scanner(tmp_path_factory):
    """What urg_library reads from an emulated scanner."""
    library = copy_of("REFIT_URG_LIBRARY", "urg_library") / "current"
    include = next(path for path in (library / "include/c", library / "include") if (path / "urg_sensor.h").exists())
    sources = [library / f"src/urg_{part}.c" for part in URG_PARTS]
    program = Path(__file__).with_name("urg_client.c")
    asks = "ignore_checkSumError" in (include / "urg_sensor.h").read_text(encoding="utf-8", errors="replace")
    folder = tmp_path_factory.mktemp("urg")
    client = built("gcc", program, sources, [include], folder, *(["-DSUMS=,0"] if asks else []))
    with EmulatorProcess("urg", "--scip", "2.0", "--noise", "0", "--no-codes") as emulator:
        yield answers(client, emulator.link), emulator.stats()


def seen(first: int, last: int) -> np.ndarray:
    """True distances [mm] of steps from the front."""
    return 1000 * Room().cast(np.arange(first, last + 1) * 2 * np.pi / STEPS).distance


def test_urg_library_reads_what_the_sensor_is(scanner):
    said, _ = scanner
    assert said["steps"] == ["-340", "341"] and said["range"] == ["20", "5600"]
    assert said["scan_usec"] == ["100000"] and said["longest"] == ["726"]
    assert float(said["microradians_of_step_100"][0]) == pytest.approx(1e8 * 2 * np.pi / STEPS, abs=1.0)
    assert said["product"][0].startswith("SOKUIKI") and said["serial"] == ["H0614967"] and said["stable"] == ["1"]


@pytest.mark.parametrize("name", ["single", "again", "stream"])
def test_urg_library_reads_whole_scans(scanner, name):
    """`single` asks with GD right after BM, while the laser is not ready yet: the sensor answers when it is."""
    said, _ = scanner
    scan, truth = np.array(said[name], float), seen(-340, 341)
    assert len(scan) == len(truth) and (abs(scan - truth) <= np.maximum(10, 0.01 * truth) + 1).all()


def test_urg_library_reads_streams_parts_and_times(scanner):
    said, stats = scanner
    shortest, longest = map(int, said["stream_periods"])
    assert 95 <= shortest <= longest <= 105
    assert int(said["part_period"][0]) == pytest.approx(300, abs=5)
    part, truth = np.array(said["part"], float), seen(-100, 99).reshape(-1, 4)
    assert len(part) == 50
    assert (part >= truth.min(axis=1) - np.maximum(11, 0.011 * truth.min(axis=1))).all()
    assert (part <= truth.max(axis=1) + np.maximum(11, 0.011 * truth.max(axis=1))).all()
    one, two = map(int, said["time_stamps"])
    assert 0 <= two - one < 5000 and said["rebooted"] == ["1"]
    assert stats["laser"] is False
