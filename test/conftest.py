"""How the tests share a machine: a ROS domain for each file, marks that say what a test starts, long files first.

docs/testing.md explains it to whoever writes a test.
"""

import functools
import gc
import math
import os
import random
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path, PurePath

import pytest

from config import network

# Numerical libraries would otherwise start as many threads as there are cores, in every worker.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"

# Graphs side by side: none comes before the others, nor before what runs in the workers.
os.environ.setdefault("LAUNCH_SHARED_SESSION", "1")

# Started in the background of a script, a suite is told to ignore Ctrl-C, and so is all that it starts, for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

HERE = Path(__file__).resolve().parent

# ---- marks -------------------------------------------------------------------------------------------------------
KINDS = ("pure", "process", "graph")

#: whoever uses one of these fixtures, or is a launch test, is in a ROS graph
GRAPH_FIXTURES = {"ros", "shared_ros", "probe"}

#: files and folders whose tests start processes or speak over pseudo-terminals; everything else is pure
PROCESS = tuple(
    PurePath(name)
    for name in (
        "cli/demo/test_reports.py",
        "cli/test_doctor.py",
        "cli/test_doctor_devices.py",
        "cli/test_main.py",
        "cli/test_robot_check.py",
        "cli/test_security.py",
        "environment/test_lanes.py",
        "environment/test_script.py",
        "environment/test_typed.py",
        "hardware/ability_hand/test_device.py",
        "hardware/audio/test_audio_device.py",
        "hardware/audio/test_speaker.py",
        "hardware/dynamixel/test_bus.py",
        "hardware/dynamixel/test_device.py",
        "hardware/dynamixel/test_emulator_faults.py",
        "hardware/dynamixel/test_emulator_sdk.py",
        "hardware/dynamixel/test_stops.py",
        "hardware/dynamixel/test_transports.py",
        "hardware/emulation",
        "hardware/estop",
        "hardware/ft300/test_device.py",
        "hardware/link",
        "hardware/makers",
        "hardware/netft/test_device.py",
        "hardware/netft/test_emulator.py",
        "hardware/rangefinder",
        "hardware/realsense/test_device.py",
        "hardware/realsense/test_endurance.py",
        "hardware/realsense/test_renderer.py",
        "hardware/robotiq/test_clients.py",
        "hardware/robotiq/test_device.py",
        "hardware/robotiq/test_world.py",
        "hardware/serial_wrench",
        "hardware/urg/test_clients.py",
        "hardware/urg/test_device.py",
        "hardware/urg/test_show.py",
        "launch",
        "nodes/framework/test_config.py",
        "nodes/framework/test_heap.py",
        "nodes/plant/test_lidar_emulator.py",
        "pip_ros",
        "recording/test_bags.py",
        "reporting/test_phone.py",
        "sim_core/codegen/test_compiler.py",
        "sim_core/host",
        "test_architecture.py",
    )
)

#: programs that a pure test may call: compilers of its kernels, and what describes the machine in a report
TOOLS = {"cc", "gcc", "g++", "c++", "clang", "git", "ldconfig", "lscpu", "nm", "nvidia-smi", "nvcc"}


def _kind(item: pytest.Item) -> str:
    if GRAPH_FIXTURES.intersection(item.fixturenames) or item.get_closest_marker("launch"):
        return "graph"
    return _kind_of_file(item.path)


@functools.cache
def _kind_of_file(file: Path) -> str:
    path = PurePath(file.relative_to(HERE))
    return "process" if any(path == entry or entry in path.parents for entry in PROCESS) else "pure"


# ---- order -------------------------------------------------------------------------------------------------------
#: what the longest files take on two cores [s]; they start first, so that the end is not one long straggler
LONG: dict[str, float] = {
    "ros2_front/test_graph.py": 180,
    "test_snippets_of_pages.py": 90,
    "scripting/test_robot.py": 80,
    "launch/test_lockstep.py": 70,
    "launch/test_devices.py": 70,
    "nodes/control/test_refit_blueprint.py": 70,
    "nodes/learning/test_augmentation.py": 70,
    "experiments/test_refit_changes.py": 70,
    "identification/test_inference.py": 70,
    "sim_core/auscultation/test_arm_on_patient.py": 70,
    "nodes/learning/test_inference.py": 60,
    "nodes/plant/test_sim_plant.py": 60,
    "experiments/test_resume_anywhere.py": 60,
    "scripting/test_tutorial.py": 60,
    "test_architecture.py": 55,
    "nodes/supervision/test_recorder.py": 55,
    "launch/test_bad_messages.py": 55,
    "sim_core/inference/samplers/test_samplers.py": 55,
    "nodes/control/test_placement.py": 55,
    "hardware/dynamixel/test_device.py": 50,
    "environment/test_script.py": 50,
    "cli/test_docs.py": 50,
    "pip_ros/test_launch_pytest.py": 45,
    "launch/test_killed.py": 40,
    "launch/test_two_robots.py": 40,
    "launch/test_time.py": 40,
    "benchmarks/test_dynamics_benchmark.py": 40,
    "hardware/urg/test_device.py": 40,
    "hardware/audio/test_audio_device.py": 35,
    "nodes/devices/test_audio.py": 35,
    "cli/calibrate/test_servos.py": 30,
    "sim_core/control/test_refit_robots.py": 30,
    "sim_core/control/test_refit_online.py": 30,
    "sim_core/multibody/test_friction.py": 30,
    "nodes/devices/test_realsense.py": 30,
    "sim_core/host/test_executors.py": 30,
}


#: files that take every core they get: they compute a whole robot in lock-step, draw in a browser without a GPU, or start an avatar (1.1
#: cores in real time). They run one after another, in one worker, since two of them side by side keep each other waiting for minutes.
CROWDING = {
    *(
        f"test/launch/test_{name}.py"
        for name in (
            "auscultation",
            "excavation",
            "placement",
            "poking",
            "poking_arm",
            "scooping",
            "scooping_interrupted",
            "teleop",
            "teleop_bridge",
            "teleop_eyes",
            "teleop_sound",
            "teleop_task",
            "teleop_texture",
            "view",
        )
    ),
    *(f"test/nodes/telepresence/test_{name}.py" for name in ("page", "page_link", "page_sound")),
}

#: how a test asks for a graph or a process, in the text of its file
ASKS = re.compile(rf"def test_\w+\([^)]*\b({'|'.join(sorted(GRAPH_FIXTURES))})\b|mark\.(launch|graph|process)\b")


@functools.cache
def _computes(file: str) -> bool:
    """Whether all tests of a file, named from the project's folder, are pure: they compute, and the others mostly wait."""
    path = HERE.parent / file
    return _kind_of_file(path) == "pure" and not ASKS.search(path.read_text(encoding="utf-8"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object | None:
    """Files to workers as `--dist loadfile` gives them, all files of CROWDING to the same worker.

    Every third worker prefers files that compute, the others those that wait: what yields fills the time in which graphs wait, from
    the first minute to the last.
    """
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class Lanes(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            return "crowding" if file in CROWDING else file

        # What follows mends xdist 3.8 after a worker's crash, or the others wait for ever (its issues 1378 and 1327).
        def remove_node(self, node: object) -> str | None:
            """A dead worker's files, but for those that are done: whoever was given one of these would wait for its first test."""
            files = self.assigned_work[node]
            for done in [file for file, tests in files.items() if all(tests.values())]:
                del files[done]
            return super().remove_node(node)

        def _reschedule(self, node: object) -> None:
            """A worker begins a test once it knows of the next one, or of none: one test alone is no work."""
            super()._reschedule(node)
            while not node.shutting_down and self._pending_of(self.assigned_work[node]) < 2:
                super()._reschedule(node)

        def _assign_work_unit(self, node: object) -> None:
            prefers = self.nodes.index(node) % 3 == 2
            fitting = (scope for scope in self.workqueue if (scope.endswith(".py") and _computes(scope)) == prefers)
            if scope := next(fitting, None):
                self.workqueue.move_to_end(scope, last=False)
            super()._assign_work_unit(node)

    return Lanes(config, log)


def _length(item: pytest.Item) -> float:
    file = item.path.relative_to(HERE).as_posix()
    return math.inf if f"test/{file}" in CROWDING else LONG.get(file, 0.0)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark each test by its kind, unless it is marked by hand; in a worker of pytest-xdist, long files first."""
    for item in items:
        if not any(item.get_closest_marker(kind) for kind in KINDS):
            item.add_marker(_kind(item))
    if hasattr(config, "workerinput"):
        items.sort(key=_length, reverse=True)


# ---- garbage -----------------------------------------------------------------------------------------------------
@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect tests without looking for garbage, and look through modules and tests, which stay, never again.

    They are a million objects, and looking through them takes a quarter of the time of collecting them, in every worker.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


# ---- pure tests are held to their mark ---------------------------------------------------------------------------
_pure_test_runs = False


def _watch(event: str, arguments: tuple) -> None:
    if not _pure_test_runs or event not in ("subprocess.Popen", "os.posix_spawn", "os.fork", "os.forkpty"):
        return
    program = arguments[0] if arguments else event
    if event == "subprocess.Popen" and isinstance(arguments[1], (list, tuple)) and arguments[1]:
        program = arguments[1][0]
    if os.path.basename(os.fsdecode(program)).split("-")[-1] not in TOOLS:
        raise RuntimeError(f"a test marked pure starts {program}: name its file in PROCESS of test/conftest.py.")


def pytest_configure() -> None:
    """Begin to watch; an audit hook cannot be taken back, and costs nothing while no pure test runs."""
    sys.addaudithook(_watch)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Let no pure test start a process, nor keep a processor from those of others."""
    global _pure_test_runs
    _pure_test_runs = item.get_closest_marker("pure") is not None
    if _may_yield():
        os.setpriority(os.PRIO_PROCESS, 0, _NICE + YIELD * _pure_test_runs)
    try:
        return (yield)
    finally:
        _pure_test_runs = False


# ---- priorities ------------------------------------------------------------------------------------------------------
#: a pure test, with all that it computes, is nicer by so much: it has no limit of seconds to keep, and a graph has many
YIELD = 10
_NICE = os.getpriority(os.PRIO_PROCESS, 0)


@functools.cache
def _may_yield() -> bool:
    """Whether this process may lower its priority and raise it again, which many systems let only a superuser do."""
    raised = []

    def trial() -> None:  # in Linux a priority is a thread's, and this one ends with what it has tried
        try:
            for more in (YIELD, 0):
                os.setpriority(os.PRIO_PROCESS, 0, _NICE + more)
            raised.append(True)
        except OSError:
            pass

    thread = threading.Thread(target=trial)
    thread.start()
    thread.join()
    return sys.platform == "linux" and bool(raised)


# ---- ROS domains -------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module", autouse=True)
def domain() -> Iterator[int]:
    """The number of a ROS domain that no other test of this machine uses, set for all processes started.

    A bound TCP port stands for each domain (domain_coordinator), so that neither the workers of one suite nor two suites
    side by side ever hear each other. Numbers end at 100: the ports of higher domains are those that the system
    gives to outgoing connections.
    """
    try:
        import domain_coordinator
    except ImportError:  # no ROS here: then there is nobody to hear either
        yield 0
        return
    # In random order: someone may be using the low ones by hand.
    order = iter(random.sample(range(1, 101), 100))
    with domain_coordinator.domain_id(order.__next__) as number, pytest.MonkeyPatch.context() as patch:
        patch.setenv("ROS_DOMAIN_ID", str(number))
        patch.setenv("ROS_AUTOMATIC_DISCOVERY_RANGE", "LOCALHOST")
        for name, value in network.changes(os.environ).items():
            if value is None:
                patch.delenv(name)
            else:
                patch.setenv(name, value)
        yield number


# ---- what the machine withholds ----------------------------------------------------------------------------------
@pytest.fixture
def withheld() -> Callable[..., float]:
    """withheld(pid): how long the threads of a process (default: this one) were ready to run, and did not get to [s].

    The difference of two calls is what a busy machine may have added to a time measured between them.
    """
    from hardware.emulation.machine_time import withheld

    return withheld
