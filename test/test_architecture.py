"""The house: arrows between packages and sub-packages run one way, and nothing is heavier than it has to be.

`python test/test_architecture.py` prints the arrows between packages and rooms, as docs/house.md shows them.
"""

import ast
import functools
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

import pytest

from cli import catalog
from config.tiers import TIERS
from nodes.table import NODES

ROOT = Path(__file__).resolve().parents[1]
ROS = {
    "rclpy",
    "launch",
    "launch_ros",
    "launch_pytest",
    "launch_front",
    "ros2_front",
    "ament_index_python",
    "refit_interfaces",
    "simulation_interfaces",
    "tf2_msgs",
    "builtin_interfaces",
    "action_msgs",
    "rcl_interfaces",
    "rosgraph_msgs",
    "std_msgs",
    "std_srvs",
    "sensor_msgs",
    "geometry_msgs",
    "nav_msgs",
    "trajectory_msgs",
    "diagnostic_msgs",
    "lifecycle_msgs",
    "visualization_msgs",
    "unique_identifier_msgs",
    "control_msgs",
    "audio_common_msgs",
    "realsense2_camera_msgs",
}
#: package -> packages of ours that it may import; whatever is not listed is forbidden
MAY_IMPORT = {
    "config": set(),
    "recording": {"config"},
    "reporting": {"config"},
    "hardware": {"config"},
    "sim_core": {"config"},
    "identification": {"config", "sim_core", "hardware", "recording", "reporting"},
    "nodes": {"config", "identification", "sim_core", "hardware", "recording", "reporting"},
    "launch": {"config", "nodes"},
    "scripting": {"config", "nodes", "sim_core", "recording", "reporting"},
    "experiments": {"config", "scripting", "nodes", "identification", "sim_core", "hardware", "recording", "reporting"},
    "benchmarks": {
        *("config", "experiments", "scripting", "nodes"),
        *("identification", "sim_core", "hardware", "recording", "reporting"),
    },
    "cli": {"config", "scripting", "nodes", "identification", "sim_core", "hardware", "recording", "reporting"},
    "pip_ros": {"recording"},
}
#: packages that ROS's absence must not stop
WITHOUT_ROS = ("config", "recording", "reporting", "hardware", "sim_core", "identification")
#: sub-packages from the bottom up; each may import those before it
FLOORS = {
    "sim_core": (
        *("host", "codegen", "multibody", "inference", "augmentation", "control", "motion", "telepresence", "plant"),
    ),
    "sim_core.multibody": ("equations", "contact", "model", "rollout"),
    "sim_core.inference": ("data", "shooting", "fit", "bayessim", "samplers", "posterior"),
    "nodes": (
        *("framework", "frames", "view", "control", "plant", "devices", "supervision", "learning", "telepresence"),
        *("perception", "planning"),
    ),
    "nodes.view": ("stage", "layers"),
}
#: what a driver's process does without: it starts in half a second and leaves memory to others
NOT_IN_DRIVERS = {
    *("mujoco", "casadi", "torch", "jax", "numpyro", "dask", "distributed", "matplotlib"),
    *("scipy.optimize", "scipy.signal", "scipy.stats"),
}
#: rivals and test robots: extras, never dependencies
EXTRAS = {"crocoddyl", "pinocchio", "example_robot_data", "hypothesis", "pytest"}
TIER_OF_AN_EXPERIMENT = {"pinocchio"}  # which its constant TIERS names


def modules(folder: str) -> list[Path]:
    return [path for path in sorted((ROOT / folder).rglob("*.py")) if "__pycache__" not in path.parts]


def dotted(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@functools.cache
def imported(path: Path) -> tuple[tuple[str, int], ...]:
    """Full dotted names of everything a file imports, however deep inside functions, and the lines."""
    return tuple(_imported(path))


def _imported(path: Path) -> Iterator[tuple[str, int]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield from ((f"{node.module}.{alias.name}", node.lineno) for alias in node.names)


@functools.cache
def arrows() -> tuple[tuple[Path, int, str, str], ...]:
    """(file, line, importing module, imported module) of every import between modules of the project."""
    return tuple(_arrows())


def _arrows() -> Iterator[tuple[Path, int, str, str]]:
    ours = {dotted(path): path for package in MAY_IMPORT if package != "launch" for path in modules(package)}
    for package in MAY_IMPORT:
        for path in modules(package):
            for name, line in imported(path):
                target = name if name in ours else name.rpartition(".")[0]
                # "launch" is our folder and a package of ROS: only the folder's files import, nobody imports them.
                if target in ours:
                    yield path, line, dotted(path), target


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Groups of nodes that reach each other (Tarjan's strongly connected components of more than one node)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in graph.get(node, ()):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            group = []
            while not group or group[-1] != node:
                group.append(stack.pop())
            if len(group) > 1:
                found.append(sorted(group))

    for node in sorted(graph):
        if node not in index:
            visit(node)
    return found


def rooms(depth: int) -> tuple[dict[str, set[str]], dict[tuple[str, str], str]]:
    """The graph of folders cut off at a depth, and one import as a witness for each arrow.

    A package's face (`__init__.py`) hands names of its rooms on; that is no arrow from one room to another.
    """
    graph: dict[str, set[str]] = defaultdict(set)
    witness: dict[tuple[str, str], str] = {}
    packages = {dotted(path) for package in MAY_IMPORT for path in modules(package) if path.name == "__init__.py"}

    def room(module: str) -> str:
        parts = module.split(".") if module in packages else module.split(".")[:-1]
        return ".".join(parts[:depth]) or module

    for path, line, source, target in arrows():
        a, b = room(source), room(target)
        if path.name == "__init__.py" and b.startswith(f"{a}."):
            continue
        if a != b:
            graph[a].add(b)
            witness[a, b] = f"{path.relative_to(ROOT)}:{line} imports {target}"
    return graph, witness


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_packages_import_what_lies_below_them(package):
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {target}"
        for path, line, source, target in arrows()
        if source.partition(".")[0] == package and target.partition(".")[0] not in MAY_IMPORT[package] | {package}
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("package", WITHOUT_ROS)
def test_ros_stays_outside(package):
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in modules(package)
        for name, line in imported(path)
        if name.partition(".")[0] in ROS
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_no_circle_between_packages_or_rooms(depth):
    graph, witness = rooms(depth)
    told = [
        "\n".join([" <-> ".join(group), *(f"    {witness[a, b]}" for a in group for b in graph[a] if b in group)])
        for group in circles(graph)
    ]
    assert not told, "\n".join(told)


def test_no_circle_between_files():
    """Imports for annotations alone (under TYPE_CHECKING) do not count here, as nothing is imported when the program runs."""
    graph: dict[str, set[str]] = defaultdict(set)
    for path, line, source, target in arrows():
        if path.name != "__init__.py" and not source.startswith("pip_ros") and line not in lines_for_types(path):
            graph[source].add(target)
    assert not circles(graph)


@functools.cache
def lines_for_types(path: Path) -> frozenset[int]:
    """Lines of a file below `if TYPE_CHECKING:`."""
    return frozenset(
        line
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for line in range(node.lineno, node.body[-1].end_lineno + 1)
    )


@pytest.mark.parametrize("package", FLOORS)
def test_floors(package):
    """The order in which docs/house.md draws the rooms: arrows go down only."""
    floors, depth = FLOORS[package], package.count(".") + 2
    wrong = []
    for path, line, source, target in arrows():
        a, b = (".".join(name.split(".")[:depth]) for name in (source, target))
        a, b = (name.removeprefix(f"{package}.") for name in (a, b))
        if a in floors and b in floors and floors.index(a) < floors.index(b):
            wrong.append(f"{path.relative_to(ROOT)}:{line} imports {target}")
    assert not wrong, "\n".join(wrong)


def test_the_picture_is_the_house():
    """docs/house.md draws the arrows that do not follow from others; with those that follow it has every arrow there is."""
    page = (ROOT / "docs" / "house.md").read_text(encoding="utf-8")
    drawn = set(re.findall(r"^ {4}(\w+) --> (\w+)$", page, re.MULTILINE))
    reachable = set(drawn)
    while more := {(a, d) for a, b in reachable for c, d in reachable if b == c} - reachable:
        reachable |= more
    measured = {(a, b) for a, targets in rooms(1)[0].items() for b in targets}
    assert measured <= reachable, f"not drawn: {sorted(measured - reachable)}"
    assert drawn <= measured, f"drawn, but no file imports so: {sorted(drawn - measured)}"


def test_every_import_has_one_spelling():
    """Absolute imports, so that a module has one name wherever it is read."""
    wrong = []
    for package in MAY_IMPORT:
        if package == "pip_ros":
            continue
        for path in modules(package):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ImportFrom) and node.level:
                    wrong.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("package", [name for name in MAY_IMPORT if name not in ("benchmarks", "pip_ros")])
def test_extras_are_not_dependencies(package):
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports {name}"
        for path in modules(package)
        for name, line in imported(path)
        if name.partition(".")[0] in EXTRAS - (TIER_OF_AN_EXPERIMENT if package == "experiments" else set())
    ]
    assert not wrong, "\n".join(wrong)


def test_rooms_hold_one_concept():
    """A file of more than 600 lines usually holds two."""
    long = {
        str(path.relative_to(ROOT)): count
        for package in MAY_IMPORT
        for path in modules(package)
        if (count := path.read_text(encoding="utf-8").count("\n")) > 600
    }
    assert not long


def import_afresh(names: list[str], without: Iterable[str] = ()) -> set[str]:
    """Names of all modules that a fresh process has loaded after importing `names`; `without` cannot be imported there."""
    program = f"""
import importlib, importlib.abc, sys
class Wall(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {sorted(without)!r}:
            raise ModuleNotFoundError("out of bounds: " + name, name=name)
sys.meta_path.insert(0, Wall())
for name in {names!r}:
    importlib.import_module(name)
print(*sys.modules)
"""
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


@pytest.mark.parametrize("package", ["config", "sim_core", "hardware", "identification", "scripting"])
def test_public_functions_are_typed(package):
    """Every argument and result of every function and method whose name has no leading underscore."""
    untyped = []
    for path in modules(package):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.name.startswith("_"):
                continue
            arguments = [
                *node.args.posonlyargs,
                *node.args.args,
                *node.args.kwonlyargs,
                node.args.vararg,
                node.args.kwarg,
            ]
            named = [argument for argument in arguments if argument is not None and argument.arg not in ("self", "cls")]
            if node.returns is None or any(argument.annotation is None for argument in named):
                untyped.append(f"{path.relative_to(ROOT)}:{node.lineno} {node.name}")
    assert not untyped, "\n".join(untyped)


def test_algorithms_load_without_ros():
    """Every module of sim_core and identification, with ROS made unimportable."""
    names = [dotted(path) for package in ("sim_core", "identification") for path in modules(package)]
    import_afresh(names, without=ROS)


def test_drivers_are_light():
    """All of them in one process, which has what any of them has; only a heavy one is looked for one by one."""
    drivers = [module for module in NODES.values() if module.startswith("nodes.devices.")]
    heavy = import_afresh(drivers) & NOT_IN_DRIVERS
    assert not heavy, {module: import_afresh([module]) & NOT_IN_DRIVERS for module in drivers}


@pytest.mark.parametrize("module", ["config.robot", "scripting", "identification"])
def test_looking_around_is_cheap(module):
    assert not import_afresh([module]) & {*NOT_IN_DRIVERS, "numpy", "rclpy"}


def test_equations_load_without_pictures_and_networks():
    loaded = import_afresh(["sim_core.multibody", "sim_core.control", "sim_core.inference.samplers"])
    assert not loaded & {"torch", "jax", "numpyro", "emcee", "cma", "distributed", "dask", "matplotlib"}


def test_a_robot_needs_the_base_alone():
    """Every node and every command loads without the packages of any tier."""
    from cli.main import COMMANDS, PLAIN_COMMANDS

    commands = [module for module, _ in (*COMMANDS.values(), *PLAIN_COMMANDS.values())]
    import_afresh([*NODES.values(), *commands, "scripting"], without=chain(*TIERS.values()))


@pytest.mark.parametrize(
    "tiers", sorted({entry.tiers for entry in catalog.entries("experiments").values()}), ids=lambda t: "+".join(t)
)
def test_experiments_say_what_they_need(tiers):
    """Every experiment loads with the base and what its constant TIERS names."""
    assert set(tiers) <= set(TIERS)
    names = [entry.module for entry in catalog.entries("experiments").values() if entry.tiers == tiers]
    import_afresh(names, without=chain(*(packages for tier, packages in TIERS.items() if tier not in tiers)))


def test_launch_folder_is_no_package():
    """An __init__.py would shadow ROS's package `launch` for whoever stands in the checkout."""
    assert not (ROOT / "launch" / "__init__.py").exists()


def test_nothing_names_the_machine_it_was_written_on():
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git checkout")
    wrong = []
    for name in listed.stdout.splitlines():
        path = ROOT / name
        if path.suffix in {".png", ".jpg", ".gz", ".safetensors"} or not path.is_file() or path == Path(__file__):
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        wrong += [f"{name}: {word}" for word in (f"{ROOT}/", f"{Path.home()}/", "/home/") if word in text]
    assert not wrong, "\n".join(wrong)


if __name__ == "__main__":
    for levels in (1, 2):
        for origin, targets in sorted(rooms(levels)[0].items()):
            print(f"{origin:32s} -> {', '.join(sorted(targets))}")
        print()
