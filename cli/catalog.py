"""Experiments and benchmarks: one module each, in folders by system, with a docstring and a function `run`.

    run(size: "quick" | "full", seed: int, progress: Progress, run_directory: RunDirectory,
        executor: Executor | None) -> Result

`run` names only the arguments it wants. A module that needs packages beyond the base says so in a constant that is
read without importing it, `TIERS = ("inference",)` (config/tiers.py); the script `refit` installs them. A module may
also define `report(result) -> Report`; without it the report shows the docstring, the checks and the tables. What `run`
itself writes to its directory is kept.
"""

from __future__ import annotations

import ast
import difflib
import functools
import importlib
import inspect
from concurrent.futures import Executor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from rich.console import Console

from cli.errors import CommandError, as_command_error
from cli.listing import first_line, show_lines
from config.tiers import require
from identification.errors import UnusableInput
from reporting import Report, Result, new_run, progress_for
from sim_core.host.executors import WorkerLost, open_executor

ROOT = Path(__file__).resolve().parent.parent


#: folder of what experiments, benchmarks and tests share: nothing in it can be run by name
SHARED = "problems"


@dataclass(frozen=True)
class Entry:
    """What can be run by name: the module, the first line of its docstring, the tiers that it needs beyond the base."""

    module: str
    line: str
    tiers: tuple[str, ...] = ()


def entries(package: str, root: Path = ROOT) -> dict[str, Entry]:
    """Name -> Entry of the modules below folder `package` that define `run`, without importing them.

    Folders below it only group: names are file names, and unique.

    Raises:
        ValueError: two modules share a name.
    """
    found: dict[str, Entry] = {}
    for path in sorted((root / package).rglob("[!_]*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        if SHARED in parts:
            continue
        read = _read(path.read_text(encoding="utf-8"), str(path))
        if read is not None:
            if path.stem in found:
                raise ValueError(f"{path} and module {found[path.stem].module} share a name; rename one of them")
            found[path.stem] = Entry(".".join(parts), *read)
    return found


@functools.cache  # by the text itself: whoever asks again and again waits for nothing but the files
def _read(text: str, name: str) -> tuple[str, tuple[str, ...]] | None:
    """First line of the docstring and tiers of a module that defines `run`; None: it does not."""
    if "def run" not in text:
        return None
    tree = ast.parse(text, name)
    if not any(isinstance(node, ast.FunctionDef) and node.name == "run" for node in tree.body):
        return None
    return first_line(tree), _tiers(tree)


def _tiers(tree: ast.Module) -> tuple[str, ...]:
    """The constant TIERS of a module; () where there is none."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "TIERS" for t in node.targets):
            return tuple(ast.literal_eval(node.value))
    return ()


def show(package: str, console: Console) -> None:
    """Print what there is."""
    show_lines({name: entry.line for name, entry in entries(package).items()}, console)


def load(package: str, name: str) -> ModuleType:
    """The module `name` of `package`.

    Raises:
        CommandError: there is none.
        MissingTierError: it needs packages that are not installed.
    """
    known = entries(package)
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"there are: {', '.join(known) or 'none'}."
        raise CommandError(f"nothing named '{name}'; {hint}")
    for tier in known[name].tiers:
        require(tier, name)
    return importlib.import_module(known[name].module)


def execute(
    package: str, name: str, size: str, seed: int | None, json_file: Path | None, cluster: str | None = None
) -> int:
    """Run one module, print its checks, leave JSON and report in a run directory. Returns the exit code.

    Args:
        seed: None: the module's own. json_file: where to write the checks as well.
        cluster: where independent jobs are computed, as for `open_executor`; None: in this process.

    Raises:
        CommandError: an option that does not apply, a place where nothing can be computed, or input that cannot be used.
    """
    if json_file is not None:
        require_writable(json_file)
    module = load(package, name)
    wanted = inspect.signature(module.run).parameters
    offered: dict[str, Any] = {"size": size}
    if seed is not None:
        offered["seed"] = seed
    for option, value in offered.items():
        if option not in wanted and (option != "size" or value != "full"):
            raise CommandError(f"{name} has no {option} to choose.")
    if cluster is not None and "executor" not in wanted:
        raise CommandError(f"{name} has no independent jobs to compute elsewhere; leave out --cluster.")
    console = Console()
    with ExitStack() as stack:
        executor = _open(stack, cluster) if cluster is not None else None
        run = new_run(name, **offered, **({"cluster": cluster} if cluster is not None else {}))
        progress = stack.enter_context(progress_for(console))
        offered.update(progress=progress, run_directory=run, executor=executor)
        with as_command_error(UnusableInput, WorkerLost):
            result: Result = module.run(**{key: value for key, value in offered.items() if key in wanted})
    result.print(console)
    result.to_json(run / "result.json")
    if not (run / "report.html").exists():
        make = getattr(module, "report", None)
        report = make(result) if make else _plain_report(result, inspect.getdoc(module) or "")
        report.write(run / "report.html")
    console.print(f"report: {run / 'report.html'}", markup=False, highlight=False, soft_wrap=True)
    if json_file is not None:
        result.to_json(json_file)
    return result.exit_code


def _open(stack: ExitStack, cluster: str) -> Executor:
    """The executor that --cluster names, closed with the stack."""
    # An error that comes out of a run while it is open is not about the place, so this cannot be one `with`.
    with as_command_error(ValueError, ConnectionError):
        return stack.enter_context(open_executor(cluster))


def require_writable(path: Path) -> None:
    """Refuse an output file that cannot be written before hours are spent on what it shall hold."""
    if path.is_dir():
        raise CommandError(f"--json names a folder: {path}. Name a file.")
    if not path.parent.is_dir():
        raise CommandError(f"--json: the folder {path.parent} does not exist. Make it first.")


def _plain_report(result: Result, said: str) -> Report:
    """A page of checks and tables.

    Args:
        said: what the module says about itself; its first line is the title.
    """
    title, *paragraphs = said.split("\n\n")
    report = Report(title or result.name, ", ".join(filter(None, [result.name, result.size, _seed_text(result)])))
    about = [paragraph for paragraph in paragraphs if not paragraph.startswith(" ")]  # commands are indented
    if about:
        report.text("\n\n".join(about))
    report.section("Targets").checks(result)
    for name, value in result.details.items():
        _add_detail(report, name, value)
    return report


def _seed_text(result: Result) -> str:
    return "" if result.seed is None else f"seed {result.seed}"


def _add_detail(report: Report, name: str, value: Any) -> None:
    """Lists of like mappings become tables, mappings of plain values two columns; the rest is in the JSON."""
    if (
        isinstance(value, list)
        and value
        and all(isinstance(row, dict) and row.keys() == value[0].keys() for row in value)
    ):
        report.section(name).table(list(value[0]), [list(row.values()) for row in value])
    elif isinstance(value, dict) and value and not any(isinstance(item, (dict, list)) for item in value.values()):
        report.section(name).table(["", "value"], list(value.items()))
