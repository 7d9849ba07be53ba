"""Injections into launched graphs, and what became of each: done, watched, judged, and the arm set going again."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from refit_interfaces.msg import SupervisorStatus

from experiments.problems.chaos_arm import ARMS, Arm, Hand, limits_of
from experiments.problems.chaos_graph import ChaosGraph, Recovery
from experiments.problems.chaos_injections import Done, Injection, inject
from experiments.problems.chaos_judge import Limits, after_stop, closed, lost_at, mastered, objection, silences, worst
from experiments.problems.chaos_observer import HALTED, Observer
from recording import BagReader
from recording.bag_reader import BagError
from scripting.errors import GraphError
from scripting.own_domain import own_domain

__all__ = ["NOT_DONE", "VERDICTS", "Outcome", "perform", "study"]

#: what may become of a graph: nothing; the arm follows again by itself; the supervisor, or a person, has stopped it; it
#: stands, says why, and needs a person; the launch has ended
VERDICTS = ("unaffected", "recovered by itself", "halted", "stood", "ended")

#: how `what` begins of an injection that a busy machine prevented
NOT_DONE = "not done"
#: [s] within which somebody has to say why an arm does not follow
SILENCE = 3.0
#: [s] after an injection until it is asked what became of it; for a halt to be watched; and at most
CALM, HALT, LONGEST = 1.8, 2.0, 6.5
GRID = 0.25
#: to start a graph
ATTEMPTS = 2
#: [s] that an authority has to be away to be judged as a stop
SHORTEST = 0.2


@dataclass
class Outcome:
    """One injection and what became of it.

    Attributes:
        graph: number of the graph. what: what was done, in words.
        verdict: one of VERDICTS.
        speed, torque, position: largest over their limits [1]; limp: largest speed, and
            caught: largest torque, while the motors obeyed nobody.
        distance, share, later: after stops, see `chaos_judge.Stop` [rad], [1], [rad].
        halts: the supervisor's sentences, with their codes. objections: what is wrong with them.
        silent: spells in which nobody said why the arm did not follow, and what else was not said.
        accepted: what should have been refused.
        refused: how many messages, by node and reason.
        way, took, answers: see `chaos_graph.Recovery`.
        stuck: whether the operator's buttons did not help although every process was there.
        exit_code: of the launch, where it ended.
        answers_for: share of the time in which the motors answered for the motion, see `chaos_judge.mastered` [1].
        lost: of the bag, where the recorder was killed or its disk full [s]; NaN elsewhere.
        unreadable: what is wrong with bags.
        waited: how long plant, emulated servos and driver waited for a core meanwhile, in all [s].
        died: processes that ended although nobody ended them.
    """

    arm: str
    kind: str
    seed: int
    graph: int
    what: str = ""
    verdict: str = ""
    speed: float = 0.0
    torque: float = 0.0
    position: float = 0.0
    limp: float = 0.0
    caught: float = 0.0
    distance: float = 0.0
    share: float = 0.0
    later: float = 0.0
    halts: list[str] = field(default_factory=list)
    objections: list[str] = field(default_factory=list)
    silent: list[str] = field(default_factory=list)
    accepted: str = ""
    refused: dict[str, int] = field(default_factory=dict)
    way: str = ""
    took: float = float("nan")
    answers: list[str] = field(default_factory=list)
    stuck: bool = False
    exit_code: int | None = None
    answers_for: float = 1.0
    lost: float = float("nan")
    unreadable: str = ""
    waited: float = 0.0
    died: list[str] = field(default_factory=list)

    @property
    def recovered(self) -> bool:
        """Whether the arm followed its path again."""
        return bool(np.isfinite(self.took))


def study(graphs: Sequence[Sequence[Injection]], folder: Path) -> Iterator[Outcome]:
    """Every injection of every graph, in order; a graph that an injection ended is started anew.

    Each arm has a ROS domain of its own, and keeps it at a restart.

    Args:
        folder: for logs and bags.

    Raises:
        GraphError: a graph does not start, although it was tried ATTEMPTS times.
    """
    robots = list(dict.fromkeys(injections[0].arm for injections in graphs))
    known = {robot: (limits_of(robot), Hand(robot)) for robot in robots}
    number = 0
    open_ends: dict[str, Outcome] = {}  # whose way back is the arm's next start

    with contextlib.ExitStack() as stack:
        domains = {robot: stack.enter_context(own_domain()) for robot in robots}

        def graph_of(robot: str) -> ChaosGraph:
            nonlocal number
            number += 1
            return _started(ARMS[robot], *known[robot], folder / f"graph{number}", domains[robot])

        for injections in graphs:
            left, robot = list(injections), injections[0].arm
            while left:
                with graph_of(robot) as graph:
                    if robot in open_ends:
                        yield _restarted(open_ends.pop(robot), graph)
                    while left and robot not in open_ends:
                        outcome = perform(graph, left.pop(0), number, known[robot][0])
                        if outcome.recovered:
                            yield outcome
                        else:
                            open_ends[robot] = outcome
                if robot in open_ends:
                    open_ends[robot].unreadable = open_ends[robot].unreadable or _unreadable(graph.folder)
        for robot, outcome in open_ends.items():
            with graph_of(robot) as graph:
                yield _restarted(outcome, graph)


def _restarted(outcome: Outcome, graph: ChaosGraph) -> Outcome:
    """The way back from the last injection into a graph was the start of the next."""
    return replace(outcome, way=f"{outcome.way}, restart" if outcome.way else "restart", took=graph.started)


def _started(arm: Arm, limits: Limits, hand: Hand, folder: Path, domain: int) -> ChaosGraph:
    """A graph whose arm follows its path; a machine that was too busy for one gets another chance."""
    for attempt in range(ATTEMPTS):
        graph = ChaosGraph(arm, limits, hand, folder.with_name(f"{folder.name}{'_again' * attempt}"), domain)
        try:
            return graph.start()
        except GraphError:
            if attempt == ATTEMPTS - 1:
                raise
    raise AssertionError("unreachable")


def perform(graph: ChaosGraph, injection: Injection, number: int, limits: Limits) -> Outcome:
    """Do one injection to a graph whose arm follows, watch what becomes of it, and lead the arm back."""
    observer = graph.observer
    before, waited, begin = observer.refusals(), graph.waited(), time.time()
    try:
        did = inject(graph, injection)
    except (GraphError, RuntimeError, OSError) as error:
        did = Done(f"{NOT_DONE}: {error}")
    over = time.time()
    settled = _settle(graph, over)
    outcome = Outcome(injection.arm, injection.kind, injection.seed, number, did.what, accepted=did.accepted)
    outcome.refused = {key: n - before.get(key, 0) for key, n in observer.refusals().items() if n > before.get(key, 0)}
    _judge_words(outcome, observer, begin, settled, did)
    if np.isfinite(did.since):
        _judge_bag(outcome, graph, did.since, did.withheld)
    if injection.kind == "disk_full":
        with contextlib.suppress(GraphError):  # then the next one finds no bag, and says so
            graph.record_anew()
    back = graph.recover() if not graph.hopeless else Recovery("", float("nan"))
    outcome.way, outcome.took, outcome.answers = back.way, back.took, list(back.answers)
    if back.way and outcome.verdict != "halted":
        outcome.verdict = "stood"
    outcome.exit_code, outcome.stuck = graph.exit_code, not graph.hopeless and bool(np.isnan(back.took))
    outcome.died, outcome.waited = graph.died(), round(max(0.0, graph.waited() - waited), 2)
    if graph.ended:
        outcome.verdict, outcome.halts = "ended", [*outcome.halts, graph.last_words()]
        outcome.objections += [f"ended: {why}" for why in [objection(graph.last_words())] if why]
    _judge_motion(outcome, observer, limits, begin, time.time())
    return outcome


def _settle(graph: ChaosGraph, over: float) -> float:
    """Wait until it shows what has become of an injection; when that was [s]."""
    halted: float | None = None
    while (now := time.time()) < over + LONGEST and not graph.ended:
        halted = None if not graph.observer.explained() else halted or now
        if now > over + CALM and (now > halted + HALT if halted else graph.observer.follows(now)):
            break
        time.sleep(0.05)
    return time.time()


def _judge_words(outcome: Outcome, observer: Observer, begin: float, settled: float, did: Done) -> None:
    halts = [status for status in observer.statuses if begin <= status.t <= settled and status.state == HALTED]
    outcome.halts = [f"{_code(status.code)}: {status.message}" for status in halts]
    outcome.objections = [f"{why}: {status.message!r}" for status in halts if (why := objection(status.message))]
    grid = [(t, observer.follows(t)) for t in np.arange(begin, settled, GRID)]
    spells = silences(grid, observer.voices(begin, settled), SILENCE)
    outcome.silent = [f"from {a - begin:.1f} to {b - begin:.1f} s" for a, b in spells]
    outcome.silent += [did.silent] if did.silent else []
    disturbed = any(not yes for t, yes in grid if t > begin + 0.5)
    halted = halts or observer.explained()
    outcome.verdict = "halted" if halted else "recovered by itself" if disturbed else "unaffected"


def _judge_motion(outcome: Outcome, observer: Observer, limits: Limits, begin: float, end: float) -> None:
    trace = observer.trace(begin, end)
    for name, value in worst(trace, limits).items():
        setattr(outcome, name, round(value, 4))
    outcome.answers_for = round(float(np.mean(mastered(trace, limits))), 3) if len(trace.t) else 0.0
    stops = [after_stop(trace, limits, a, b) for a, b in closed(observer.leases, begin, end) if b - a > SHORTEST]
    for name in ("distance", "share", "later"):
        setattr(outcome, name, round(max((getattr(stop, name) for stop in stops), default=0.0), 4))


def _judge_bag(outcome: Outcome, graph: ChaosGraph, since: float, withheld: float) -> None:
    said = graph.observer.newest("recorder")
    try:
        bag = BagReader(said.values["bag"] if said else graph.folder / "bag")
        recorded = np.array([1e-9 * stamp for _, stamp, _ in bag.raw("/joint_states")])
    except (BagError, KeyError) as error:
        outcome.unreadable, outcome.lost = str(error), float("inf")
        return
    outcome.lost = round(max(0.0, lost_at(np.array(graph.observer.published), recorded, since) - withheld), 3)


def _unreadable(folder: Path) -> str:
    """What is wrong with the bags of a graph that has ended; "" if each can be read."""
    for path in sorted(folder.glob("bag*")):
        try:
            if not BagReader(path).has("/joint_states"):
                return f"{path.name} holds no joint states"
        except BagError as error:
            return str(error)
    return ""


def _code(code: int) -> str:
    return next(
        (
            name.removeprefix("CODE_")
            for name in dir(SupervisorStatus)
            if name.startswith("CODE_") and getattr(SupervisorStatus, name) == code
        ),
        str(code),
    )
