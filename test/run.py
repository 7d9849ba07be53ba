"""What `./refit test` runs: formatting, lint and types, the tests side by side, then whole commands to their checks.

    ./refit test                        everything, as continuous integration does
    ./refit test style                  formatting, lint and types alone
    ./refit test pure                   the tests of one kind: pure, process or graph
    ./refit test commands               demo, experiments and benchmark alone
    ./refit test test/hardware -k scan  all other words go to pytest

docs/testing.md says more. Exit code 0: all is well; 1: a step failed; 130: interrupted.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
KINDS = ("pure", "process", "graph")

STYLE: dict[str, tuple[str, ...]] = {
    "formatting": ("ruff", "format", "--check", "--quiet", "."),
    "lint": ("ruff", "check", "--quiet", "."),
    "types": ("mypy",),
}
REMEDY = {
    "formatting": "`ruff format` puts it right",
    "lint": "`ruff check --fix` mends what a machine can",
    "types": "an annotation and what the code does disagree",
}

#: says why it failed, or "", and perhaps what else is to be known
Step = Callable[[], str | tuple[str, str]]

#: one experiment of each folder of experiments/: the shortest that shows the system at work
EXPERIMENTS = (
    *("ampc_cartpole", "likelihood_sum_vs_product", "device_faults", "neuralsim_friction", "chaos", "robots"),
    *("teleop_ik", "auscultation_bo", "lidar_mirror_tracking", "ids_arms"),
)
#: folders none of whose experiments is run here: each misses a number that its page names, or takes longer than this command has
MISSED = ("elastic", "excavation", "granular", "scooping")
BENCHMARK = "networks"
COMMANDS: dict[str, tuple[str, ...]] = {
    "demo": ("demo", "--quick", "--headless"),
    "demo auscultation": ("demo", "auscultation", "--quick", "--headless"),
    "demo scooping": ("demo", "scooping", "--quick", "--headless"),
    "demo excavation": ("demo", "excavation", "--quick", "--headless"),
    "demo lidar": ("demo", "lidar", "--quick", "--headless"),
    **{name: ("experiment", name, "--quick") for name in EXPERIMENTS},
    f"bench {BENCHMARK}": ("bench", BENCHMARK, "--quick"),
}
#: commands that run one at a time, because they judge what happens in wall time: graphs that are not in lock-step, times of solutions
TIMED = ("demo", "demo lidar", "ampc_cartpole", "device_faults", "chaos", "teleop_ik", f"bench {BENCHMARK}")
#: of these, what gets no second turn: one limit that was violated is one too many
ONCE = ("chaos",)
#: so many of the others run side by side
BESIDE = 2

#: a line like "==== 2900 passed, 3 skipped in 600.00s (0:10:00) ===="
CLOSING = re.compile(r"^=*\s*(?:\d+ [a-z]+,? ?)+ in [\d.]+s.*$")


#: failures in so many files at most, one in a hundred, get a second turn: more are no accident of a busy machine, and each is a fault to be mended
ALONE = 5


def failures() -> int:
    """In how many files tests failed or could not be set up, as pytest has noted: those of a file share a graph and fall with it."""
    noted = ROOT / ".pytest_cache" / "v" / "cache" / "lastfailed"
    failed = json.loads(noted.read_text(encoding="utf-8")) if noted.exists() else {}
    return len({test.partition("::")[0] for test in failed})


def workers() -> int:
    """How many tests run side by side: twice the cores, since most of a test is waiting; each takes up to 1.5 GB.

    Three times as many took as long on two cores (26 min), and a third more of their time: a graph costs as long as it lives.
    """
    return min(8, 2 * max(2, len(os.sched_getaffinity(0))))


def spread(words: Sequence[str]) -> list[str]:
    """Options that spread tests over workers; none if the words already say how, or name single files."""
    own = ("-n", "--numprocesses", "--dist", "--pdb", "-s", "--capture=no", "--collect-only", "--co", "--setup-plan")
    if any(word.startswith(own) or word.partition("::")[0].endswith(".py") for word in words):
        return []
    # A file stays together, as its fixtures are; files in the order of test/conftest.py, the longest first.
    return ["-n", str(workers()), "--dist", "loadfile", "--no-loadscope-reorder"]


def call(words: Sequence[str]) -> int:
    """The exit code of a command that writes to this terminal."""
    return subprocess.run(words, cwd=ROOT, check=False).returncode


def run_pytest(words: Sequence[str]) -> tuple[int, str]:
    """pytest's exit code, and the line it closes with."""
    command = [sys.executable, "-P", "-m", "pytest", *spread(words), *words]
    colour = ["--color=yes"] if sys.stdout.isatty() else []
    process = subprocess.Popen([*command, *colour], cwd=ROOT, stdout=subprocess.PIPE)
    assert process.stdout is not None
    last = b""
    try:
        while chunk := os.read(process.stdout.fileno(), 65536):
            sys.stdout.buffer.write(chunk)
            sys.stdout.buffer.flush()
            last = (last + chunk)[-4096:]
    except KeyboardInterrupt:  # pytest has heard it too, and ends its workers and their processes
        process.wait()
        raise
    lines = re.sub(r"\x1b\[[0-9;]*m", "", last.decode(errors="replace")).splitlines()
    return process.wait(), next((line for line in reversed(lines) if CLOSING.match(line)), "")


def is_compiled(file: Path) -> bool:
    """Whether pytest has kept a module of tests as it compiles it, with what it says of a failed assertion, and since its last change."""
    kept = file.parent.joinpath("__pycache__").glob(f"{file.stem}.*-pytest-*.pyc")
    return any(other.stat().st_mtime >= file.stat().st_mtime for other in kept)


def compile_tests() -> subprocess.Popen | None:
    """Collect all tests once, in the background, where many are not compiled: else every worker would do all of that for itself."""
    files = list((ROOT / "test").rglob("test_*.py"))
    if sum(map(is_compiled, files)) > 0.8 * len(files):
        return None
    command = [sys.executable, "-P", "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def run_command(name: str, whole: bool) -> str:
    """Why one of COMMANDS failed, or "". What it writes lies in a folder that is kept if it fails; its graph has a ROS domain of its own.

    Args:
        whole: what it says is printed in one piece once it has ended.
    """
    from scripting.own_domain import own_domain

    folder = Path(tempfile.mkdtemp(prefix=f"refit-{name.replace(' ', '-')}-"))
    command = [sys.executable, "-P", "-m", "cli.main", *COMMANDS[name], "--json", str(folder / "result.json")]
    with own_domain() as domain, (folder / "said").open("w+") as said:
        environment = {**os.environ, "REFIT_RUNS": str(folder), "ROS_DOMAIN_ID": str(domain)}
        output = dict(stdout=said, stderr=subprocess.STDOUT) if whole else {}
        code = subprocess.run(command, cwd=ROOT, env=environment, check=False, **output).returncode
        said.seek(0)
        text = said.read()
    if code == 0:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        text += f"refit test: {name} left its report in {folder}\n"
    print(text, end="", flush=True)
    return f"exit code {code}; {missed(folder / 'result.json')}" if code else ""


def missed(result: Path) -> str:
    """Which checks a command's result says to have missed, and by how much."""
    if not result.exists():
        return "it came to no result"
    checks = [check for check in json.loads(result.read_text(encoding="utf-8"))["checks"] if not check["passed"]]
    return "; ".join(
        f"{check['name']}: {check['value']}, target {check['relation']} {check['target']}" for check in checks
    )


def run_timed(name: str) -> tuple[str, str]:
    """Why a command of TIMED failed, or "", and what is to be said beside it.

    It judges times on a machine that others may share: it gets one more turn, as tests do, but for ONCE. Both outcomes are said.
    """
    first = run_command(name, whole=False)
    if name in ONCE:
        return first, ""
    second = first and run_command(name, whole=False)
    return second, f"the first turn: {first}" if first else ""


def run_commands() -> list[str]:
    """Run all COMMANDS, first those that may run side by side; returns a line about each."""
    beside = {name: lambda name=name: run_command(name, whole=True) for name in COMMANDS if name not in TIMED}
    return run_beside(beside) + run_steps(
        {name: lambda name=name: run_timed(name) for name in COMMANDS if name in TIMED}
    )


def outcome(name: str, step: Step) -> str:
    """A line that says how a step went."""
    start = time.monotonic()
    found = step()
    why, beside = (found, "") if isinstance(found, str) else found
    told = "".join(f" ({said})" for said in (why, beside) if said)
    return f"{'FAILED' if why else 'ok':7s}{name}, {time.monotonic() - start:.0f} s{told}"


def run_steps(steps: dict[str, Step]) -> list[str]:
    """Run steps in order, all of them whatever fails; returns a line about each."""
    lines = []
    for name, step in steps.items():
        print(f"refit test: {name}", flush=True)
        lines.append(outcome(name, step))
    return lines


def run_beside(steps: dict[str, Step], count: int = BESIDE) -> list[str]:
    """Run steps that print nothing before their end, so many side by side; returns a line about each, in their order.

    A keyboard interrupt, which the steps' processes hear as well, lets none begin any more.
    """
    print(f"refit test: {', '.join(steps)}, {count} side by side", flush=True)
    pool = ThreadPoolExecutor(count)
    try:
        return list(pool.map(outcome, steps, steps.values()))
    finally:
        pool.shutdown(cancel_futures=True)


def main(words: Sequence[str]) -> int:
    """Run what the words ask for; returns the exit code."""
    # Hundreds of processes read the project's modules: compiled once, as Python does unless a machine's image forbids it.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    first, rest = (words[0], words[1:]) if words else ("", [])
    if first in KINDS:
        return run_pytest(["-m", first, *rest])[0]
    if words and (first not in ("style", "commands") or rest):
        return run_pytest(words)[0]
    style: dict[str, Step] = {
        name: lambda name=name: REMEDY[name] * bool(call([sys.executable, "-P", "-m", *STYLE[name]])) for name in STYLE
    }
    if first == "style":
        lines, closing = run_steps(style), ""
    elif first == "commands":
        lines, closing = run_commands(), ""
    else:
        closing, compiling = "", compile_tests()

        def tests() -> str:
            """Why they failed, or ""."""
            nonlocal closing
            if compiling is not None:
                compiling.wait()
            code, closing = run_pytest([])
            if code != 1 or failures() > ALONE:
                return f"exit code {code}" if code else ""
            # Whoever failed beside others gets one more turn, alone. Both outcomes are said; a second failure counts.
            print("refit test: what failed beside other tests, once more and alone", flush=True)
            again, second = run_pytest(["--last-failed", "--last-failed-no-failures=none", "-n", "0"])
            closing = f"{closing}\nthe failed ones once more, alone: {second.strip('= ')}"
            return f"exit code {again}" if again else ""

        lines = run_steps({**style, "tests": tests}) + run_commands()
    print("\n".join(["", "refit test:", *(f"  {line}" for line in lines), *([closing] if closing else [])]), flush=True)
    return int(any(line.startswith("FAILED") for line in lines))


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
