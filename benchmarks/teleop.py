"""How long does a loop of a teleoperated arm's inverse kinematics take, beside mink and Pink?

    ./refit bench teleop

Work, the same for all: a Panda on an avatar's shoulder follows scripted motions of a hand, 125 targets a second, A in its
workspace and B beyond it and back. The quadratic programme is the same for ours and the rivals (frame 1, damping 0.02,
posture 0.0005, limits of positions and speeds), but for the axes of the error: ours is told in the base's, theirs in the
hand's. On A, where everything is reached, all three must agree to 5 mrad, or the comparison is void. MoM, which keeps away from
singularities, has no rival that does the same; it stands beside the programmes.

Then a whole session over this machine's sockets: how old a hand's sample is when the simulated avatar's command leaves, and how
old a camera's picture is when the page has decoded it. These are times of a wall clock, and hold for a machine on which
nothing else runs.

Each rival is compiled (mink with its own compiled operations and MuJoCo, Pink with Pinocchio) and takes the fastest of the
solvers that are installed (quadprog, DAQP). All targets are brought into each engine's own types beforehand. Engines take
turns; what counts is the processor time of a whole motion over its loops, the least of all rounds.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable

import numpy as np

from benchmarks.rivals.pinocchio import pinocchio_model
from experiments.problems.teleop_session import command_path, glass_to_glass
from experiments.telepresence.teleop_ik import CHOSEN, FINGERTIPS, HALF_OF_HOME, arm
from reporting import Report, Result, SilentProgress
from sim_core.multibody import load_model
from sim_core.telepresence.arm_ik import PERIOD, ArmIk, QpIk
from sim_core.telepresence.arm_kinematics import ArmKinematics, pose_error
from sim_core.telepresence.arm_tracking import ANGLE, DISTANCE, settle
from sim_core.telepresence.clutch import Pose
from sim_core.telepresence.mom_ik import MomIk
from sim_core.telepresence.operator_motion import operator_motion
from sim_core.telepresence.posture_bias import NeutralBias

SOURCE = "own target"
FRAME, DAMPING, PULL = "flange", 0.02, 0.0005
SOLVERS = ("quadprog", "daqp")
SESSION = {"quick": 8.0, "full": 30.0}  # [s]
#: what the thesis took for a loop at its fastest [ms], on a computer that it does not name
PUBLISHED = {"QP": 1.3, "MoM": 0.4}
SECONDS, ROUNDS = {"quick": 10.0, "full": 30.0}, {"quick": 3, "full": 7}
#: one step of ours and of a rival from the same joints is compared at every so many targets [rad]; farther targets than this from the
#: hand [m], [rad] ours comes to by shorter steps on purpose
AGREEMENT, EVERY, NEAR = 5e-4, 15, (0.05, 0.3)
PACKAGES = {"mink": ("mink", "mink==1.3.0 daqp==0.11.0"), "Pink": ("pink", "pin-pink==4.4.0 daqp==0.11.0")}


def run(progress=SilentProgress(), size: str = "full", seed: int = 0) -> Result:
    """Time all engines on the same targets."""
    result = Result("bench_teleop", seed=seed, size=size)
    kinematics = ArmKinematics(load_model("panda"), FRAME)
    engines = _engines(kinematics, progress)
    for name in PACKAGES:
        result.check(f"{name} in the same run", any(e.startswith(name) for e in engines), True, "==", "", SOURCE)
    rows = []
    for kind in ("A", "B"):
        targets = in_the_base(operator_motion(kind, seed, SECONDS[size]))
        start = settle(kinematics, targets[0], NeutralBias(kinematics.neutral), least=HALF_OF_HOME)
        best, paths = dict.fromkeys(engines, np.inf), {}
        for _ in progress.track(range(ROUNDS[size]), f"motion {kind}"):
            for name, make in engines.items():
                seconds, paths[name] = make(targets)(start)
                best[name] = min(best[name], seconds / len(targets))
        rows += [
            {"motion": kind, "engine": name, "ms": 1e3 * best[name], "loss": lost(kinematics, targets, paths[name])}
            for name in engines
        ]
        if kind == "A":
            _agree(
                result,
                kinematics,
                {name: make for name, make in engines.items() if name != "MoM"},
                targets,
                paths["QP"],
            )
        _judge(result, kind, {name: 1e3 * seconds for name, seconds in best.items()})
    result.detail("loops", rows)
    _sessions(result, size, progress)
    return result


def _sessions(result: Result, size: str, progress) -> None:
    for name, measure, key, limit in (
        ("sample to command", command_path, "command path p95", 30.0),
        ("camera to decoded picture, 640 x 480, 30 Hz, two cameras", glass_to_glass, "p95", 150.0),
    ):
        progress.say(f"{name}: {SESSION[size]:g} s")
        found = measure(SESSION[size])
        result.check(f"{name}, 95 %", found[key], limit, "<=", "ms", "spec: local targets")
        result.detail(name, found)


def _agree(result: Result, kinematics: ArmKinematics, engines: dict, targets: list[Pose], path: np.ndarray) -> None:
    """Whether all solve the same task: from joints on our path, one step of each towards the same target."""
    apart: dict[str, float] = dict.fromkeys((name for name in engines if name != "QP"), 0.0)
    for k in range(1, len(path), EVERY):
        error = pose_error(targets[k], kinematics.at(path[k - 1]).pose)
        if np.linalg.norm(error[:3]) < NEAR[0] and np.linalg.norm(error[3:]) < NEAR[1]:
            ours, *theirs = (engines[name]([targets[k]])(path[k - 1])[1][0] for name in ("QP", *apart))
            for name, joints in zip(apart, theirs):
                apart[name] = max(apart[name], float(np.abs(joints - ours).max()))
    for name, most in apart.items():
        result.check(f"joints after one step, ours beside {name}'s, largest", most, AGREEMENT, "<=", "rad", "same task")


def _judge(result: Result, kind: str, ms: dict[str, float]) -> None:
    for ours, published in PUBLISHED.items():
        result.check(f"{ours} on {kind}: time of a loop", ms[ours], published, "<=", "ms", "thesis, table 8.4")
    for name in PACKAGES:
        theirs = {engine: spent for engine, spent in ms.items() if engine.startswith(name)}
        for ours in ("QP", "MoM"):
            share = ms[ours] / min(theirs.values()) if theirs else None
            result.check(
                f"{ours} on {kind}: time of a loop over {name}'s", share, 1.0, "<=", "1", f"{SOURCE}: no slower"
            )


def in_the_base(motion) -> list[Pose]:
    """Where the flange shall be, in the axes of the arm's base."""
    base = arm(CHOSEN).base
    turns = base.rotation.T @ motion.rotations @ FINGERTIPS.rotation.T
    places = (motion.positions - base.position) @ base.rotation - turns @ FINGERTIPS.position
    return [Pose(place, turn) for place, turn in zip(places, turns)]


def lost(kinematics: ArmKinematics, targets: list[Pose], path: np.ndarray) -> float:
    """Share of loops after which the hand is not where it shall be."""
    errors = np.array([pose_error(target, kinematics.at(q).pose) for target, q in zip(targets, path)])
    return float(
        np.mean((np.linalg.norm(errors[:, :3], axis=1) > DISTANCE) | (np.linalg.norm(errors[:, 3:], axis=1) > ANGLE))
    )


# -- engines: of targets, a function from joint positions to the seconds of all loops and the path (N, n) ----------------------

Follow = Callable[[np.ndarray], tuple[float, np.ndarray]]


def _engines(kinematics: ArmKinematics, progress) -> dict[str, Callable[[list[Pose]], Follow]]:
    made: dict[str, Callable[[list[Pose]], Follow]] = {}
    for name, ik in (("QP", QpIk(kinematics)), ("MoM", MomIk(kinematics, HALF_OF_HOME))):
        made[name] = lambda targets, ik=ik: _ours(ik, targets)
    for name, (package, pins) in PACKAGES.items():
        if importlib.util.find_spec(package) is None:
            progress.say(f"{name} is left out, as it is not installed: pip install {pins} quadprog==0.1.14")
            continue
        follow = {"mink": _mink, "Pink": _pink}[name]
        for solver in SOLVERS:
            if importlib.util.find_spec(solver) is not None:
                made[f"{name}, {solver}"] = lambda targets, f=follow, s=solver: f(kinematics, targets, s)
    return made


def _ours(ik: ArmIk, targets: list[Pose]) -> Follow:
    bias = ik.kinematics.neutral

    def follow(q):
        path = np.empty((len(targets), len(q)))
        begin = time.thread_time()
        for k, target in enumerate(targets):
            path[k] = q = ik.step(target, q, bias)
        return time.thread_time() - begin, path

    return follow


def _mink(kinematics: ArmKinematics, targets: list[Pose], solver: str) -> Follow:
    import mink

    model = kinematics.model.mj_model
    frame = mink.FrameTask(FRAME, "site", position_cost=1.0, orientation_cost=1.0)
    posture = mink.PostureTask(model, cost=np.sqrt(PULL))
    posture.set_target(kinematics.neutral)
    speeds = dict(zip(kinematics.joints, kinematics.speed.tolist()))
    limits = [mink.ConfigurationLimit(model, gain=1.0), mink.VelocityLimit(model, speeds)]
    poses = [mink.SE3.from_matrix(_matrix(target)) for target in targets]

    def follow(q):
        configuration, path = mink.Configuration(model, q.copy()), np.empty((len(targets), len(q)))
        begin = time.thread_time()
        for k, pose in enumerate(poses):
            frame.set_target(pose)
            speed = mink.solve_ik(configuration, [frame, posture], PERIOD, solver, damping=DAMPING, limits=limits)
            configuration.integrate_inplace(speed, PERIOD)
            path[k] = configuration.q
        return time.thread_time() - begin, path

    return follow


def _pink(kinematics: ArmKinematics, targets: list[Pose], solver: str) -> Follow:
    import pinocchio as pin
    from pink import Configuration, solve_ik
    from pink.limits import ConfigurationLimit, VelocityLimit
    from pink.tasks import FrameTask, PostureTask

    robot = pinocchio_model(kinematics.model, kinematics.model.parameters.nominal, FRAME)
    robot.lowerPositionLimit, robot.upperPositionLimit = kinematics.lower.copy(), kinematics.upper.copy()
    robot.velocityLimit = kinematics.speed.copy()
    frame, posture = FrameTask(FRAME, position_cost=1.0, orientation_cost=1.0), PostureTask(cost=np.sqrt(PULL))
    posture.set_target(kinematics.neutral)
    limits = [ConfigurationLimit(robot, config_limit_gain=1.0), VelocityLimit(robot)]
    poses = [pin.SE3(_matrix(target)) for target in targets]

    def follow(q):
        configuration, path = Configuration(robot, robot.createData(), q.copy()), np.empty((len(targets), len(q)))
        begin = time.thread_time()
        for k, pose in enumerate(poses):
            frame.set_target(pose)
            speed = solve_ik(configuration, [frame, posture], PERIOD, solver, damping=DAMPING, limits=limits)
            configuration.integrate_inplace(speed, PERIOD)
            path[k] = configuration.q
        return time.thread_time() - begin, path

    return follow


def _matrix(pose: Pose) -> np.ndarray:
    matrix = np.eye(4)
    matrix[:3, :3], matrix[:3, 3] = pose.rotation, pose.position
    return matrix


def report(result: Result) -> Report:
    """The table and the targets."""
    page = Report("Inverse kinematics of a teleoperated arm", f"Panda, {result.size}, seed {result.seed}")
    page.text(__doc__.split("\n\n", 2)[2])
    page.section("Targets").checks(result)
    rows = result.details["loops"]
    page.section("Processor time of a loop, and share of loops in which the hand was lost")
    page.table(
        ["motion", "engine", "ms", "loss [%]"],
        [[row["motion"], row["engine"], f"{row['ms']:.4f}", f"{100 * row['loss']:.1f}"] for row in rows],
    )
    return page
