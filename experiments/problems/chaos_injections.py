"""What is done to a graph: each kind of injection, and the order in which a seed draws them.

for graph in plan("full", seed=0):                      # of one arm, in the order of its injections
    for injection in graph: ...
what = inject(chaos_graph, injection)                   # does it, and says what it was
"""

from __future__ import annotations

import os
import random
import resource
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from refit_interfaces.msg import ParameterSet
from refit_interfaces.srv import SetParameterSet
from simulation_interfaces.msg import SimulationState
from simulation_interfaces.srv import ResetSimulation, SetSimulationState

from experiments.problems.chaos_arm import ARMS, Arm
from experiments.problems.chaos_attacker import HUGE, STRANGER, Attack
from experiments.problems.chaos_graph import ANSWER, ChaosGraph
from hardware.emulation.machine_time import withheld
from scripting.errors import GraphError

__all__ = ["Done", "Injection", "inject", "kinds", "plan"]

#: [s] that an attack lasts; that a process stands still
ATTACK, STANDSTILL = (0.3, 1.0), (0.2, 3.0)
#: [Hz]
FLOOD, STREAM = (1000.0, 3000.0), (20.0, 500.0)
#: [s] for the recorder to begin its first bag, in a graph that starts; to say that its disk is full
BEGIN, DISK = 30.0, 6.0
#: [s] in which the machine may have withheld its cores from a recorder that is killed then
RECENT = 1.5
COMMANDER = "adaptive_mpc"
#: injections that leave the graph up, and kills of what it bears or not: (graphs, injections of each) by arm and size
SIZES = {
    "quick": {"panda": (1, 8), "dxl_arm": (1, 8)},
    "full": {"panda": (12, 11), "dxl_arm": (15, 8)},
}


@dataclass(frozen=True)
class Injection:
    """One thing done to one arm's graph; everything random about it follows from its seed."""

    arm: str
    kind: str
    seed: int


@dataclass
class Done:
    """What an injection was.

    Attributes:
        what: in words, with its numbers.
        accepted: what should have been refused and was not.
        silent: what should have been said and was not.
        since: when data on a disk begin to be lost [s]; NaN: none are.
        withheld: how long a busy machine had not run the recorder in the seconds before [s].
    """

    what: str
    accepted: str = ""
    silent: str = ""
    since: float = float("nan")
    withheld: float = 0.0


Injector = Callable[[ChaosGraph, random.Random], Done]


def _attack(
    topic: str,
    contents: Sequence[str],
    rate: tuple[float, float] = STREAM,
    commander: str = STRANGER,
    author: str = STRANGER,
    offsets: Sequence[tuple[float, float]] = ((0.0, 0.0),),
) -> Injector:
    """Messages of the attacker's."""

    def do(graph: ChaosGraph, rng: random.Random) -> Done:
        attack = Attack(
            topic,
            rng.choice(list(contents)),
            rng.uniform(*rate),
            rng.uniform(*ATTACK),
            rng.randrange(2**31),
            author,
            commander,
            rng.uniform(*rng.choice(list(offsets))),
        )
        graph.attacker.start(attack)
        return Done(_told(attack, graph.attacker.wait()))

    return do


def _told(attack: Attack, sent: int) -> str:
    offset = f", {attack.offset:+.2f} s" if attack.offset else ""
    return f"{sent} {attack.topic} ({attack.content}{offset}) in {attack.seconds:.2f} s"


def _kill(name: str) -> Injector:
    def do(graph: ChaosGraph, rng: random.Random) -> Done:
        time.sleep(rng.uniform(0.0, 1.0))
        done = Done(f"SIGKILL of {name}")
        if name == "recorder":
            before = withheld(graph.pids[name])
            time.sleep(RECENT)
            done.withheld = withheld(graph.pids[name]) - before
            done.since = time.time()
        graph.signal(name, signal.SIGKILL)
        if name in ("supervisor", "sim_plant"):
            graph.wait_end()
        return done

    return do


def _stop(name: str) -> Injector:
    def do(graph: ChaosGraph, rng: random.Random) -> Done:
        seconds = rng.uniform(*STANDSTILL)
        graph.signal(name, signal.SIGSTOP)
        time.sleep(seconds)
        graph.signal(name, signal.SIGCONT)
        return Done(f"{name} stopped for {seconds:.2f} s")

    return do


def _hostile_commander(graph: ChaosGraph, rng: random.Random) -> Done:
    """The right to command is handed to the stranger, who does the worst it can."""
    attack = Attack(
        "commands", rng.choice(("bang", "posture")), rng.uniform(100.0, 500.0), 2.5, rng.randrange(2**31), STRANGER
    )
    graph.attacker.start(attack)
    time.sleep(0.4)
    refused = graph.hand_over(STRANGER)
    sent = graph.attacker.wait()
    back = graph.hand_over(COMMANDER)
    return Done(
        f"handed over to a stranger; {_told(attack, sent)}" + (f"; {refused or back}" if refused or back else "")
    )


def _forged_parameters(graph: ChaosGraph, rng: random.Random) -> Done:
    """As the refit's word, and by the services that set parameters."""
    done = _attack("parameters", ("huge", "nan", "negative", "short"), (2.0, 20.0))(graph, rng)
    service = rng.choice(("adaptive_mpc/set_physical_parameters", "refit_worker/set", "sim_plant/set"))
    told = ParameterSet(robot=graph.arm.robot, model_hash=graph.hash, vector=np.full(graph.width, HUGE).tolist())
    try:
        answer = graph.client.call(SetParameterSet, service, SetParameterSet.Request(parameters=told), ANSWER)
        done.what += f"; {service} with {HUGE:g}: {answer.message}"
        done.accepted = f"{service} took {HUGE:g}" if answer.success else ""
    except GraphError:  # refit_worker has been killed, or a control of its own has no such service
        done.what += f"; {service} did not answer"
    return done


def _reset(graph: ChaosGraph, rng: random.Random) -> Done:
    scopes = rng.choice((0, ResetSimulation.Request.SCOPE_TIME, ResetSimulation.Request.SCOPE_STATE))
    answer = graph.client.call(ResetSimulation, "reset_simulation", ResetSimulation.Request(scope=scopes), ANSWER)
    return Done(f"reset, scope {scopes}: result {answer.result.result}")


def _pause(graph: ChaosGraph, rng: random.Random) -> Done:
    seconds = rng.uniform(0.3, 3.0)
    for state in (SimulationState.STATE_PAUSED, SimulationState.STATE_PLAYING):
        request = SetSimulationState.Request(state=SimulationState(state=state))
        graph.client.call(SetSimulationState, "set_simulation_state", request, ANSWER)
        time.sleep(seconds if state == SimulationState.STATE_PAUSED else 0.0)
    return Done(f"time stood still for {seconds:.2f} s")


def _operator(graph: ChaosGraph, rng: random.Random) -> Done:
    service = rng.choice(("stop", "disarm"))
    time.sleep(rng.uniform(0.0, 1.0))
    return Done(f"{service}: {graph.press(service) or 'done'}")


def _disk_full(graph: ChaosGraph, rng: random.Random) -> Done:
    """The system refuses the recorder's next bytes: a limit on the size of its files, which needs no privileges.

    The error is EFBIG where a full disk gives ENOSPC; for the recorder both are an OSError of a write.
    """

    def bag() -> str:
        said = graph.observer.newest("recorder")
        return said.values.get("bag", "") if said else ""

    if not graph.client.until(bag, BEGIN, "while the recorder began its bag"):
        raise RuntimeError(f"the recorder has begun no bag within {BEGIN:g} s")
    sizes = [entry.stat().st_size for entry in os.scandir(bag())] if os.path.isdir(bag()) else [0]
    room, pid = rng.randrange(0, 200_000), graph.pids["recorder"]
    since = time.time()
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (max(sizes) + room, resource.RLIM_INFINITY))

    def complained() -> bool:
        newest = graph.observer.newest("recorder")
        return newest is not None and newest.t > since and newest.level >= 2 and "Writing" in newest.message

    noticed = graph.client.until(complained, DISK, "the recorder says that its disk is full")
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    newest = graph.observer.newest("recorder")
    done = Done(f"no room after {room} bytes: {newest.message if newest else ''}", since=since)
    done.silent = "" if noticed else f"the recorder did not say within {DISK:g} s that its disk is full"
    return done


#: [s] of stamps: older than any limit, slightly ahead, far ahead
JUMPS = ((-20.0, -0.6), (0.02, 0.3), (0.6, 100.0))

ALIKE: dict[str, Injector] = {
    "flood_valid": _attack("commands", ("hold", "posture"), FLOOD),
    "flood_far": _attack("commands", ("far",), FLOOD),
    "flood_claimed": _attack("commands", ("hold", "posture", "bang"), FLOOD, COMMANDER),
    "flood_claimed_far": _attack("commands", ("far",), FLOOD, COMMANDER),
    "forged_command": _attack("commands", ("posture", "bang"), STREAM, COMMANDER),
    "forged_status": _attack("status", ("ready", "halted", "any"), (2.0, 100.0)),
    "forged_lease": _attack("lease", ("grant", "withdraw", "nonsense"), (2.0, 100.0), COMMANDER),
    "forged_supervisor": _attack("lease", ("grant", "withdraw"), (2.0, 100.0), STRANGER, "supervisor"),
    "forged_parameters": _forged_parameters,
    "forged_states": _attack("states", ("elsewhere", "fast")),
    "forged_controller": _attack("controller", ("idle",)),
    "hostile_commander": _hostile_commander,
    "malformed_commands": _attack("commands", ("nan", "lengths", "names", "mode"), STREAM, COMMANDER),
    "malformed_states": _attack("states", ("nan", "lengths", "names", "frame")),
    "stamps_of_commands": _attack("commands", ("hold", "posture"), STREAM, COMMANDER, offsets=JUMPS),
    "stamps_of_states": _attack("states", ("hold",), STREAM, offsets=JUMPS),
    "reset": _reset,
    "operator": _operator,
    "disk_full": _disk_full,
}
#: of an arm whose nodes live in the plant's time
SIMULATED: dict[str, Injector] = {
    "clock": _attack("clock", ("jump",), (1.0, 50.0), offsets=((-20.0, -0.6), (0.6, 100.0))),
    "pause": _pause,
}


def kinds(arm: Arm) -> dict[str, Injector]:
    """Every kind of injection of an arm's."""
    return {
        **ALIKE,
        **(SIMULATED if arm.simulated else {}),
        **{f"stop_{name}": _stop(name) for name in arm.processes},
        **{f"kill_{name}": _kill(name) for name in arm.processes},
    }


def inject(graph: ChaosGraph, injection: Injection) -> Done:
    """Do it."""
    return kinds(graph.arm)[injection.kind](graph, random.Random(injection.seed))


def plan(size: str, seed: int) -> list[list[Injection]]:
    """The graphs of a study, one arm after the other: what leaves a graph up, in an order of the seed, then what does not.

    Every kind comes before any comes again. A graph's last two kill a process that it bears the loss of, and one that it
    does not, in turn.
    """
    rng = random.Random(seed)
    graphs: list[list[Injection]] = []
    for robot, (count, length) in SIZES[size].items():
        arm = ARMS[robot]
        lasting = [kind for kind in kinds(arm) if not kind.startswith("kill_")]
        deck: list[str] = []
        for k in range(count):
            chosen: list[str] = []
            while len(chosen) < length:
                if not deck:
                    deck = rng.sample(lasting, len(lasting))
                chosen.append(deck.pop())
            last = [arm.others[k % len(arm.others)], arm.essential[k % len(arm.essential)]]
            chosen += [f"kill_{name}" for name in last]
            graphs.append([Injection(robot, kind, rng.randrange(2**31)) for kind in chosen])
    return graphs
