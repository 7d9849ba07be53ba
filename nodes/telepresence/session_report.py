"""The report of what was driven: report.json for programs, and report.html for people.

Times are measured by the bridge: a sample's age is from the moment at which the operator's devices were read until the bridge
handed it on, by clocks that pings align; a picture's is from the camera's stamp until it went to the encoder, and a sound's
likewise from the microphone's stamp. A voice's age is its packet's length and half of a ping's way: no clock of the operator's is in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from reporting import Report, Result, write_run
from sim_core.telepresence.competition import POINTS, Rehearsed, score

__all__ = ["rejoins", "write_session_report"]

#: [s] after a loss, within which a client shall be back
REJOIN_LIMIT = 5.0
#: [ms] of a sample's way to the robot, at the 95th percentile, on a local network; a part of the 30 ms of the whole path
AGE_LIMIT = 30.0
SOURCE = "telepresence specification, algorithm J and acceptance 11"
#: ways in which a session ends that are losses of the link
LOSSES = ("silent", "sent away: occupied")


def rejoins(sessions: Sequence[Mapping[str, Any]]) -> list[float]:
    """[s] from the last word of each operator whose link was lost to the beginning of his next session.

    How long the network itself was gone is a part of it.
    """
    found = []
    for i, session in enumerate(sessions):
        if session["role"] == "operator" and session["ended"] in LOSSES:
            later = [
                other["began_s"]
                for other in (*sessions[:i], *sessions[i + 1 :])
                if other["name"] == session["name"] and other["began_s"] >= session["last_heard_s"]
            ]
            found += [min(later) - session["last_heard_s"]] if later else []
    return found


def write_session_report(
    sessions: Sequence[Mapping[str, Any]],
    counts: Mapping[str, int],
    robot: str,
    folder: Path | None = None,
    rehearsed: Sequence[Rehearsed] = (),
) -> Path:
    """Write both files into a new folder, which is whole or not there.

    Args:
        sessions: as `SessionLog.facts` says them. counts: of the server. robot: its title.
        folder: a number is appended where there is one; None: one in runs/.
        rehearsed: tasks of a simulated world.

    Returns:
        The folder.

    Raises:
        OSError: it cannot be written.
    """
    sessions = sorted(sessions, key=lambda session: session["began_s"])
    result = Result("telepresence_session")
    for session in sessions:
        if session["role"] == "operator" and session["age_ms"]:
            name = f"age of the samples of {session['name']} ({session['session'][:4]}), 95th percentile"
            result.check(name, session["age_ms"]["p95"], AGE_LIMIT, "<=", "ms", SOURCE)
    for seconds in rejoins(sessions):
        result.check("back after a lost link", seconds, REJOIN_LIMIT, "<=", "s", SOURCE)
    document = {"robot": robot, "sessions": sessions, "counts": dict(sorted(counts.items())), **result.to_dict()}
    if rehearsed:
        document["rehearsed"] = [asdict(one) for one in rehearsed]
        document["competition_points"] = _points(rehearsed)
    page = _page(sessions, counts, robot, result, rehearsed)

    def fill(run: Any) -> None:
        run.write_json("report.json", document)
        page.write(run / "report.html")

    return write_run("telepresence", fill, None if folder is None else _free(folder))


def _free(folder: Path) -> Path:
    """The folder's path, or with a number appended where something is there."""
    candidate, number = folder, 2
    while candidate.exists():
        candidate, number = folder.with_name(f"{folder.name}-{number}"), number + 1
    return candidate


def _points(rehearsed: Sequence[Rehearsed]) -> int:
    """Of the competition; a task that it does not have is worth none."""
    return score((one.task, one.steps_done) for one in rehearsed if one.task in POINTS)


def _page(
    sessions: Sequence[Mapping[str, Any]],
    counts: Mapping[str, int],
    robot: str,
    result: Result,
    rehearsed: Sequence[Rehearsed],
) -> Report:
    driven = [session for session in sessions if session["role"] == "operator"]
    report = Report(f"Telepresence of {robot}", sessions[0]["date"] if sessions else "")
    report.numbers(
        {
            "operators": len({session["name"] for session in driven}),
            "driven": f"{sum(session['seconds'] for session in driven):.0f} s",
            "samples taken": sum(session["samples"]["taken"] for session in driven),
            "links lost": sum(session["ended"] in LOSSES for session in driven),
        }
    )
    if result.checks:
        report.checks(result)
    report.section("Sessions", "Every hand-shake makes one.")
    report.table(
        ["who", "role", "began", "seconds", "ended", "taken", "lost", "dropped", "buttons"],
        [
            [
                session["name"], session["role"], session["date"], round(session["seconds"], 1), session["ended"],
                session["samples"]["taken"], session["samples"]["lost"], _words(session["samples"]["dropped"]),
                _words(session["buttons"]),
            ]
            for session in sessions
        ],
    )  # fmt: skip
    if rehearsed:
        text = f"Worth {_points(rehearsed)} of the ten points that the tasks of the ANA Avatar XPRIZE bring."
        report.section("Tasks", text).table(
            ["task", "steps done", "done", "seconds", "what the simulated world says"],
            [[one.task, one.steps_done, one.done, round(one.elapsed, 1), one.sentence] for one in rehearsed],
        )
    report.section("Link", "Ages of samples when they were handed on, and round trips of pings, in milliseconds.")
    report.table(
        ["who", "age p50", "age p95", "age max", "round trip p50", "round trip p95", "jitter", "loss", "clock set anew"],
        [
            [
                session["name"], *_some(session["age_ms"], "p50", "p95", "max"), *_some(session["rtt_ms"], "p50", "p95"),
                session["jitter_ms"], session["loss"], session["clock_steps"],
            ]
            for session in sessions
        ],
    )  # fmt: skip
    report.section("Bandwidth", "Each stream's mean over its session; of sound also how much of it was dropped.")
    report.table(["who", "stream", "kbit/s", "age p95 [ms]", "dropped [ms]", "given up"], list(_streams(sessions)))
    report.section("Everything that was counted")
    return report.table(["what", "how often"], [[name, count] for name, count in sorted(counts.items())])


def _streams(sessions: Sequence[Mapping[str, Any]]) -> list[list[Any]]:
    rows = []
    for session in sessions:
        rows += [[session["name"], name, rate, None, None, ""] for name, rate in session["bandwidth_kbit"].items()]
        for video in session["video"]:
            for name, stream in video["streams"].items():
                rate = 8.0 * stream["kilobytes"] / max(session["seconds"], 1e-9)
                (age,) = _some(stream["age_ms"], "p95")
                dropped = stream.get("dropped_ms")
                rows.append([session["name"], name, rate, age, dropped, f"{video['steps_down']} times"])
    return rows


def _some(numbers: Mapping[str, float] | None, *names: str) -> list[float | None]:
    return [None if numbers is None else numbers[name] for name in names]


def _words(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items()) or "–"
