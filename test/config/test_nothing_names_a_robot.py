"""No code names a robot: adding one changes no file that exists."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from config.robot import robot_names

ROOT = Path(__file__).resolve().parents[2]
ROBOTS = frozenset(robot_names())
#: experiments and benchmarks are about certain robots; everything else serves any
PACKAGES = ("nodes", "launch", "cli", "scripting", "identification", "sim_core", "hardware", "recording", "reporting")


def docstrings(tree: ast.Module) -> Iterator[ast.Constant]:
    """The texts that open a module, class or function, or stand alone below a field."""
    for node in ast.walk(tree):
        for statement in getattr(node, "body", []) if not isinstance(node, ast.Lambda | ast.IfExp) else []:
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                yield statement.value


def robot_defaults(tree: ast.Module) -> Iterator[ast.AST]:
    """Default of an argument `robot` of a function, and of a field `robot` of a dataclass: `robot: str = setting("panda")`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            arguments = [*node.args.posonlyargs, *node.args.args]
            given = zip(arguments[len(arguments) - len(node.args.defaults) :], node.args.defaults)
            named = zip(node.args.kwonlyargs, node.args.kw_defaults)
            yield from (default for argument, default in (*given, *named) if argument.arg == "robot" and default)
        if isinstance(node, ast.ClassDef):
            for field in node.body:
                if isinstance(field, ast.AnnAssign) and ast.unparse(field.target) == "robot":
                    value = field.value
                    yield value.args[0] if isinstance(value, ast.Call) and value.args else value


def named(source: str) -> list[str]:
    """Line and robot of every text that is the name of a robot."""
    tree = ast.parse(source)
    allowed = {id(node) for node in (*docstrings(tree), *robot_defaults(tree))}
    return [
        f"{node.lineno}: {node.value}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and node.value in ROBOTS and id(node) not in allowed
    ]


@pytest.mark.parametrize("package", PACKAGES)
def test_no_code_names_a_robot(package):
    wrong = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in sorted((ROOT / package).rglob("*.py"))
        for line in named(path.read_text(encoding="utf-8"))
    ]
    assert not wrong, "\n".join(wrong)


def test_what_counts_as_naming_one():
    allowed = '''
"""panda"""
@dataclass
class Config:
    robot: str = setting("panda", description="model in config/robots")
def load(cls, robot: str = "quadruped", *, other=1): "cartpole"
def show(*, robot="panda"): return "the panda"
'''
    assert named(allowed) == []
    for line in (
        'if robot == "panda": pass',
        'ARMS = {"dxl_arm": 1}',
        'def load(name="panda"): pass',
        'robot = "panda"',
        'class Config:\n    robot: str = setting("", "panda")',
        'class Config:\n    model: str = setting("panda")',
        'match robot:\n    case "cartpole": pass',
        'names = ("panda",)',
    ):
        assert len(named(line)) == 1, line
