"""What every node says and hears, read from the calls in its source that make publishers, services and actions.

    endpoints("supervisor").publishes       # {"supervisor/status", "diagnostics", ...}

There is no second list of topics that could differ from the first. A helper to which somebody passes a name is followed to
those who call it. Names that are made while a node runs are DECLARED here; a new one that is not is an error, which a
test meets before a robot does.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path

from nodes import table
from nodes.table import NODES

__all__ = ["Endpoints", "endpoints"]


@dataclass(frozen=True)
class Endpoints:
    """Names as a node writes them: relative to its namespace, to itself (~/), or absolute; * stands for any text.

    Attributes:
        publishes, subscribes: topics.
        serves, calls: services that it offers, and that it asks others for.
        executes, requests: likewise actions.
    """

    publishes: frozenset[str] = frozenset()
    subscribes: frozenset[str] = frozenset()
    serves: frozenset[str] = frozenset()
    calls: frozenset[str] = frozenset()
    executes: frozenset[str] = frozenset()
    requests: frozenset[str] = frozenset()

    def __or__(self, other: Endpoints) -> Endpoints:
        return Endpoints(*(getattr(self, item.name) | getattr(other, item.name) for item in fields(self)))


#: what every node of ours has by being a lifecycle node of rclpy
EVERY_NODE = Endpoints(
    publishes=frozenset({"/rosout", "/parameter_events", "~/transition_event"}),
    subscribes=frozenset({"/clock", "/parameter_events"}),
    serves=frozenset(
        f"~/{name}"
        for name in (
            *("describe_parameters", "get_parameters", "get_parameter_types", "list_parameters", "set_parameters"),
            *("set_parameters_atomically", "get_type_description", "change_state", "get_state"),
            *("get_available_states", "get_available_transitions", "get_transition_graph"),
        )
    ),
)
#: names that only a running node knows, by module; whatever else cannot be read in these modules is covered by them
DECLARED = {
    # a profile's topics, and what somebody names
    "nodes.supervision.recorder": Endpoints(subscribes=frozenset({"*"})),
    # what its layers want
    "nodes.view.view": Endpoints(subscribes=frozenset({"*"})),
    # by what the camera has
    "nodes.devices.realsense": Endpoints(publishes=frozenset({"~/*", "/tf_static"})),
    # the microphone that somebody names
    "nodes.control.placement": Endpoints(requests=frozenset({"*/record"})),
    # the plant that somebody names
    "nodes.plant.sim_camera": Endpoints(subscribes=frozenset({"*/grains"})),
    # asks for its callers, which are the next two
    "nodes.framework.asking": Endpoints(),
    "nodes.learning.augmentation": Endpoints(calls=frozenset({"*/load_blueprint"})),
    "nodes.learning.inference": Endpoints(calls=frozenset({"*/set_particles", "*/set_physical_parameters", "*/set"})),
}
#: function of rclpy -> (kind of endpoint, position of the name among its arguments)
CREATORS = {
    "create_publisher": ("publishes", 1),
    "create_lifecycle_publisher": ("publishes", 1),
    "create_subscription": ("subscribes", 1),
    "create_service": ("serves", 1),
    "create_client": ("calls", 1),
    "ActionServer": ("executes", 2),
    "ActionClient": ("requests", 2),
}
_ROOT = Path(table.__file__).resolve().parents[1]
_FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


class _Unknown(Exception):
    """A name cannot be read from the source."""


class _Passed(Exception):
    """A name is an argument of the function or class that is called `helper`, at this position."""

    def __init__(self, helper: str, position: int) -> None:
        super().__init__(helper, position)
        self.helper, self.position = helper, position


@functools.cache
def endpoints(executable: str) -> Endpoints:
    """Of one node, given by its name in `nodes/table.py`.

    Raises:
        ValueError: a name that cannot be read and is not DECLARED; the text says where.
    """
    trees = {module: _tree(module) for module in _modules(NODES[executable])}
    creators = dict(CREATORS)
    while True:  # until nobody passes a name on that is not known for it
        found, helpers = _look(trees, creators)
        if helpers.items() <= creators.items():
            break
        creators |= helpers
    every = EVERY_NODE
    for kind, name in found:
        every |= Endpoints(**{kind: frozenset({name})})
    for module in trees:
        every |= DECLARED.get(module, Endpoints())
    return every


def _look(
    trees: dict[str, ast.Module], creators: dict[str, tuple[str, int]]
) -> tuple[set[tuple[str, str]], dict[str, tuple[str, int]]]:
    """Every (kind, name) that is made, and helpers that were found: {helper: (kind, position of the name)}."""
    found: set[tuple[str, str]] = set()
    helpers: dict[str, tuple[str, int]] = {}
    for module, tree in trees.items():
        for call, above in _calls(tree, ()):
            kind, position = creators.get(_called(call, above), ("", 0))
            if not kind or len(call.args) <= position:
                continue
            try:
                names = _values(call.args[position], above)
            except _Passed as passed:
                helpers[passed.helper] = kind, passed.position
            except _Unknown:
                if module not in DECLARED:
                    raise ValueError(
                        f"{module}, line {call.lineno}: expected a name that can be read from the source, found "
                        f"{ast.unparse(call.args[position])}; declare it in DECLARED of cli/security_endpoints.py"
                    ) from None
            else:
                if module in DECLARED:
                    names = {name for name in names if "*" not in name}
                found |= {(kind, name) for name in names}
    return found, helpers


def _calls(node: ast.AST, above: tuple[ast.AST, ...]) -> Iterator[tuple[ast.Call, tuple[ast.AST, ...]]]:
    """Every call below a node, with what it is in, the nearest first."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Call):
            yield child, (node, *above)
        yield from _calls(child, (node, *above))


def _called(call: ast.Call, above: tuple[ast.AST, ...]) -> str:
    """The function's name, or what a local name stands for: serve = node.create_service."""
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    name = call.func.id if isinstance(call.func, ast.Name) else ""
    for value in _assigned(name, above):
        if isinstance(value, ast.Attribute):
            return value.attr
    return name


def _values(expression: ast.expr, above: tuple[ast.AST, ...]) -> set[str]:
    """Every text that an expression may have.

    Raises:
        _Passed, _Unknown
    """
    match expression:
        case ast.Constant(value=str(text)):
            return {text}
        case ast.IfExp(body=body, orelse=orelse):
            return _values(body, above) | _values(orelse, above)
        case ast.JoinedStr(values=parts):
            texts = {""}
            for part in parts:
                try:
                    inner = _values(part.value if isinstance(part, ast.FormattedValue) else part, above)
                except (_Passed, _Unknown):
                    inner = {"*"}
                texts = {text + more for text in texts for more in inner}
            return texts
        case ast.Name(id=name):
            return _values_of_name(name, above)
    raise _Unknown


def _values_of_name(name: str, above: tuple[ast.AST, ...]) -> set[str]:
    for i, node in enumerate(above):
        loops = getattr(node, "generators", [node] if isinstance(node, ast.For) else [])
        for loop in loops:
            if (rows := _column(loop, name)) is not None:
                return {text for row in rows for text in _values(row, above)}
        if isinstance(node, _FUNCTION):
            arguments = [argument.arg for argument in node.args.args]
            if name in arguments:
                owner = above[i + 1]
                method = isinstance(owner, ast.ClassDef)
                called = getattr(node, "name", "")
                raise _Passed(owner.name if method and called == "__init__" else called, arguments.index(name) - method)
        if values := list(_assigned(name, (node,))):
            return {text for value in values for text in _values(value, above)}
    raise _Unknown


def _column(loop: ast.For | ast.comprehension, name: str) -> list[ast.expr] | None:
    """What a variable of a loop over rows that are written down there goes through."""
    if not isinstance(loop.target, ast.Tuple) or not isinstance(loop.iter, ast.Tuple):
        return None
    variables = [getattr(variable, "id", "") for variable in loop.target.elts]
    if name not in variables:
        return None
    return [row.elts[variables.index(name)] for row in loop.iter.elts if isinstance(row, ast.Tuple)]


def _assigned(name: str, above: tuple[ast.AST, ...]) -> Iterator[ast.expr]:
    """What is assigned to a name in the functions around, or to a constant of the module."""
    for place in above:
        if isinstance(place, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Module)):
            for node in place.body if isinstance(place, ast.Module) else ast.walk(place):
                if isinstance(node, ast.Assign) and [getattr(target, "id", "") for target in node.targets] == [name]:
                    yield node.value


def _modules(module: str) -> list[str]:
    """A node's module and every module of `nodes` that it imports, directly or not."""
    found: list[str] = []
    left = [module]
    while left:
        module = left.pop()
        if module in found or not module.startswith("nodes.") or _file(module) is None:
            continue
        found.append(module)
        for node in ast.walk(_tree(module)):
            if isinstance(node, ast.ImportFrom) and node.module:
                left += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            elif isinstance(node, ast.Import):
                left += [alias.name for alias in node.names]
    return found


@functools.cache
def _tree(module: str) -> ast.Module:
    path = _file(module)
    assert path is not None
    return ast.parse(path.read_text(encoding="utf-8"))


def _file(module: str) -> Path | None:
    path = _ROOT.joinpath(*module.split(".")).with_suffix(".py")
    return path if path.is_file() else None
