"""Every line of a launch begins with its node's name, also where a prefix runs the node: `[env-1]` would tell nobody anything."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FRAME = ROOT / "nodes" / "framework" / "extended_simulation.py"
FILES = [*sorted((ROOT / "launch").glob("*.launch.py")), FRAME]
#: what a launch file has that starts no node by itself: those of another file, which is read here as well
ELSEWHERE = ("IncludeLaunchDescription", "extended_simulation(")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_nodes_are_called_by_their_names(file):
    nodes = [
        {word.arg: ast.unparse(word.value) for word in node.keywords}
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("Node", "LifecycleNode")
    ]
    assert nodes or any(word in file.read_text(encoding="utf-8") for word in ELSEWHERE)
    for words in nodes:
        assert words.get("exec_name") == words["name"], words
