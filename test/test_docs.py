"""The pages name what is there: links lead to files, paths exist, imports in code blocks work."""

import ast
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
OURS = re.compile(
    r"(config|sim_core|nodes|hardware|recording|reporting|identification|scripting|cli|experiments|benchmarks)\b"
)
#: a path of ours in backticks: at least one folder, and an ending
PATH = re.compile(
    r"`((?:config|sim_core|nodes|hardware|recording|reporting|identification|scripting|cli|experiments|benchmarks|launch|test"
    r"|interfaces|pip_ros|data|docs)/[\w./-]+\.\w+)`"
)
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[\w-]*)?\)")
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_to_files(page):
    targets = [target for target in LINK.findall(page.read_text(encoding="utf-8")) if "://" not in target]
    lost = [target for target in targets if not (page.parent / target).exists()]
    assert not lost, f"{name_of(page)}: nothing at {', '.join(lost)}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_paths_exist(page):
    named = [path for path in PATH.findall(page.read_text(encoding="utf-8")) if "ROBOT" not in path]
    lost = [path for path in named if not (ROOT / path).exists()]
    assert not lost, f"{name_of(page)}: nothing at {', '.join(lost)}"


@pytest.mark.parametrize(
    "page", [page for page in PAGES if "```python" in page.read_text(encoding="utf-8")], ids=name_of
)
def test_imports_of_code_blocks_work(page):
    wrong = []
    for block in BLOCK.findall(page.read_text(encoding="utf-8")):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.ImportFrom) and node.module and OURS.match(node.module):
                module = importlib.import_module(node.module)
                for alias in node.names:
                    if not hasattr(module, alias.name):
                        try:
                            importlib.import_module(f"{node.module}.{alias.name}")
                        except ModuleNotFoundError:
                            wrong.append(f"from {node.module} import {alias.name}")
    assert not wrong, f"{name_of(page)}: {', '.join(wrong)}"
