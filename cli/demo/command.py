"""`refit demo`: a simulated robot that refits its physics while it moves, and a report of what it learnt."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Annotated, Optional

import typer
from rich.console import Console

from cli.demo.live import live_view
from cli.errors import CommandError
from cli.listing import show_lines
from config.description import DigDemo, ListenDemo, PayloadDemo, PokeDemo, Robot, RobotError, ScoopDemo, SwingUpDemo
from config.robot import DEFAULT, SHOWN, load_robot, loadable_robots
from reporting.checks import EXIT_OK
from scripting import ScriptError
from sim_core.adoption import AdoptionError, adopted

ROBOTS = [robot for robot in loadable_robots() if robot.demo]
RECIPES = ("robust", "literal")
SHORTEST = 9.0  # [s] of an arm's run: the payload appears at 5 s and is to be known 3 s later
FEWEST = 3  # episodes of a cart-pole
DEMONSTRATIONS = {kind.kind: kind for kind in (PayloadDemo, SwingUpDemo, ListenDemo, ScoopDemo, DigDemo, PokeDemo)}

#: demonstrations without a robot
ALONE = ("lidar",)

#: what each of them shows
SHOWS = {
    "payload": "an arm learns what it holds",
    "swing_up": "a cart-pole learns all of its physics",
    "auscultation": "an arm finds out where to listen to a person",
    "scooping": "an arm collects a sample of grains",
    "excavation": "an arm digs in a pile of blocks",
    "poking": "an arm finds out how hard an object is",
    "lidar": "a scanner finds itself and a mirror, without a robot",
}


def _names(kind: type = object) -> list[str]:
    """Names of the robots that have a demonstration of a kind."""
    return [robot.name for robot in ROBOTS if isinstance(robot.demo, kind)]


def _given_by(name: str) -> str:
    """Which --robot a demonstration may have, the default first; "" for one without a robot."""
    if name in ALONE:
        return ""
    others = [robot for robot in _names(DEMONSTRATIONS[name]) if robot != SHOWN[name]]
    return f" (--robot {', '.join([SHOWN[name], *others])})"


def demo(
    name: Annotated[
        Optional[str],
        typer.Argument(
            metavar="[NAME]",
            help="the demonstration: "
            + ", ".join(f"{kind} ({shows})" for kind, shows in SHOWS.items())
            + "; by default the one that the robot has",
        ),
    ] = None,
    robot: Annotated[
        Optional[str],
        typer.Option(
            help=f"one of {', '.join(_names())}, or the path of a robot's folder or of its URDF, xacro or MJCF file; by default "
            + ", ".join(f"{SHOWN[name]} ({name})" for name in DEMONSTRATIONS)
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="of initial states and sensor noise", min=0)] = 0,
    payload: Annotated[
        Optional[float],
        typer.Option(
            help="arms: mass that appears in the hand at 5 s [kg]; by default "
            + ", ".join(f"{r.demo.mass:g} ({r.name})" for r in ROBOTS if isinstance(r.demo, PayloadDemo))
        ),
    ] = None,
    duration: Annotated[
        float, typer.Option(help="arms: simulated time of each run [s]", min=SHORTEST, max=120.0)
    ] = 14.0,
    episodes: Annotated[int, typer.Option(help="cart-poles: number of episodes", min=FEWEST, max=50)] = 10,
    change: Annotated[
        Optional[list[str]],
        typer.Option(
            help="hidden change, repeatable; arms, at 5 s: payload:1.5@0.06,0,0.1 (kg, m in the hand's frame), "
            "friction:JOINT=2.5 (N m), damping:JOINT=x3 (a multiple), gain:JOINT=0.8 (what is left of its motor), "
            "mass:LINK=1.3 (times as heavy), armature:JOINT=x2, tilt:3@y (degrees); names may hold wildcards; "
            "cart-poles with two poles: pole_mass=FACTOR or gain=FACTOR from the fourth episode on"
        ),
    ] = None,
    free: Annotated[
        Optional[str],
        typer.Option(
            help="arms: what the refit may change besides what the hand holds, separated by commas, e.g. '*.friction,*.gear'; "
            "none: nothing; by default the kind of what --change changes, in every joint or link"
        ),
    ] = None,
    recipe: Annotated[
        str, typer.Option(help="cart-poles: the robust refit, or the published (literal) one")
    ] = "robust",
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help=f"as short as it can be: arms {SHORTEST:g} s, cart-poles {FEWEST} episodes, auscultation two regions, scooping a small sample, excavation one trial, poking two pokes; no film, deadlines are reported but not judged",
        ),
    ] = False,
    view: Annotated[
        Optional[bool],
        typer.Option(
            "--view/--no-view",
            help="show the robot in the browser while it moves; by default where that is installed, except with --quick or --headless",
        ),
    ] = None,
    json: Annotated[Optional[Path], typer.Option(help="write the checks to this file as well")] = None,
    output: Annotated[Optional[Path], typer.Option(help="folder in which the run directory is made (runs/)")] = None,
    headless: Annotated[
        bool, typer.Option("--headless", help="accepted for scripts: no window is opened in any case")
    ] = False,
    list_: Annotated[bool, typer.Option("--list", help="say what there is, and which robots give it")] = False,
) -> int:
    """Start a ROS 2 graph in which a robot learns its own physics, record it, and report what was learnt.

    Arms: the hand follows a path; a payload unknown to the controller appears in it, or the arm itself changes. Without
    refit, then with.
    Cart-poles: swing-up from a model with every parameter at 2, refitting after every episode, beside a
    controller that knows the truth and one that never learns.
    Auscultation: a person is scanned, and listened to where a planner sends the stethoscope.
    Scooping: an arm scoops in a tray of grains, where most is expected after each scoop, until a sample is large enough.
    Excavation: an arm drags a bucket through a pile of blocks, blindly along a path, and again with a plan for every motion.
    Poking: cameras look at a soft object, an arm pokes it where that tells most, and what a line would feel is foretold.

    Exit code 0: every target met, or interrupted by Ctrl-C; 1: a target was missed; 2: wrong usage.
    """
    if list_:
        show_lines({kind: f"{shows}{_given_by(kind)}" for kind, shows in SHOWS.items()})
        return EXIT_OK
    if quick:
        duration, episodes = SHORTEST, FEWEST
    if name is not None and name not in (*DEMONSTRATIONS, *ALONE):
        raise CommandError(
            f"{name}: expected one of {', '.join((*DEMONSTRATIONS, *ALONE))}; the robot is named by --robot."
        )
    if name in ALONE:
        if robot is not None or change or free is not None or payload is not None:
            raise CommandError(
                f"{name} has no robot, so that --robot, --change, --free and --payload say nothing to it."
            )
        return _alone(name, seed, quick, view, headless, json, output)
    if robot is None:
        robot = SHOWN[name] if name else DEFAULT
    try:
        robot = adopted(robot)
    except AdoptionError as error:
        raise CommandError(f"--robot {robot}: {error}.") from None
    shown, said = _robot(robot, name), tuple(change or ())
    arm = isinstance(shown.demo, PayloadDemo)
    if len(said) > 1 and not arm:
        raise CommandError(f"--change: {shown.name} takes one, found {len(said)}.")
    if said and isinstance(shown.demo, ListenDemo | ScoopDemo | DigDemo | PokeDemo):
        raise CommandError(f"--change: {shown.name} takes none.")
    if free is not None and not arm:
        raise CommandError(
            f"--free is for arms ({', '.join(_names(PayloadDemo))}): {shown.name} refits what is published."
        )
    factor = _validate(shown, recipe, None if arm or not said else said[0], episodes)
    payload = _payload(shown, payload)
    if json is not None and not json.expanduser().resolve().parent.is_dir():
        raise CommandError(f"--json {json}: the folder does not exist; make it first.")
    console = Console()
    page = live_view(view, quick or headless)
    if page.said:
        console.print(page.said, markup=False, highlight=False, soft_wrap=True)
    folder = None
    try:
        # Within the try: these imports take seconds, in which a person may change their mind.
        from cli.demo.story import run
        from reporting import new_run, progress_for

        changed = None
        if arm:
            from cli.demo.arm_change import arm_change

            changed = arm_change(robot, said, payload, free)
        folder = new_run(
            f"demo-{shown.name.replace('_', '-')}",
            output,
            seed=seed,
            robot=robot,
            payload=payload,
            duration=duration,
            episodes=episodes,
            change=said,
            free=free,
            recipe=recipe,
        )
        with progress_for(console) as progress:
            result = run(
                robot,
                folder.path,
                progress,
                seed=seed,
                changed=changed,
                duration=duration,
                episodes=episodes,
                change=factor,
                recipe=recipe,
                quick=quick,
                view=page,
            )
    except KeyboardInterrupt:
        console.print(
            f"Interrupted; what was recorded is in {folder.path}." if folder else "Interrupted.", markup=False
        )
        return EXIT_OK
    except OSError as error:
        raise CommandError(f"cannot write the run directory: {error}") from error
    except ScriptError as error:
        raise CommandError(str(error), exit_code=1) from error
    result.print(console)
    if json is not None:
        shutil.copyfile(folder / "result.json", json.expanduser())
    console.print(f"Report: {folder / 'report.html'}", markup=False, highlight=False, soft_wrap=True)
    if page.port is not None:
        last = next(name for name in ("with_refit", "adaptive", "bag") if (folder / name).is_dir())
        console.print(f"To see it again: ./refit view {folder / last}", markup=False, highlight=False, soft_wrap=True)
    return result.exit_code


def _alone(
    name: str, seed: int, quick: bool, view: bool | None, headless: bool, json: Path | None, output: Path | None
) -> int:
    """A demonstration without a robot."""
    if json is not None and not json.expanduser().resolve().parent.is_dir():
        raise CommandError(f"--json {json}: the folder does not exist; make it first.")
    console = Console()
    page = live_view(view, quick or headless)
    if page.said:
        console.print(page.said, markup=False, highlight=False, soft_wrap=True)
    try:
        from cli.demo.lidar import run
        from reporting import new_run, progress_for

        folder = new_run(f"demo-{name}", output, seed=seed, quick=quick)
        with progress_for(console) as progress:
            result = run(folder.path, progress, seed, quick, page)
    except KeyboardInterrupt:
        console.print("Interrupted.", markup=False)
        return EXIT_OK
    except OSError as error:
        raise CommandError(f"cannot write the run directory: {error}") from error
    except ScriptError as error:
        raise CommandError(str(error), exit_code=1) from error
    result.print(console)
    if json is not None:
        shutil.copyfile(folder / "result.json", json.expanduser())
    console.print(f"Report: {folder / 'report.html'}", markup=False, highlight=False, soft_wrap=True)
    return result.exit_code


def _robot(robot: str, name: str | None = None) -> Robot:
    """The description of the robot asked for.

    Args:
        name: of the demonstration that it is to give; None: whichever it has.

    Raises:
        CommandError: there is none, it cannot be used, or it has no demonstration, or not this one.
    """
    expected = f"expected one of {', '.join(_names())}, or the path of a robot's folder or model file"
    try:
        found = load_robot(robot)
    except FileNotFoundError:
        raise CommandError(f"--robot {robot}: {expected}.") from None
    except RobotError as error:
        raise CommandError(f"--robot {robot}: {error}") from None
    if found.demo is None:
        raise CommandError(f"--robot {robot}: demo is missing in {found.file}; {expected}.")
    if name is not None and found.demo.kind != name:
        able = ", ".join(_names(DEMONSTRATIONS[name]))
        raise CommandError(f"{name} is a demonstration of {able}: {found.name} has {found.demo.kind}.")
    return found


def _payload(robot: Robot, payload: float | None) -> float | None:
    """The mass asked for [kg], if any.

    Raises:
        CommandError: the robot carries none, or not this one.
    """
    if payload is None:
        return None
    if not isinstance(robot.demo, PayloadDemo):
        raise CommandError(f"--payload is for arms ({', '.join(_names(PayloadDemo))}): {robot.name} has no hand.")
    lightest, heaviest = robot.demo.mass_range
    if not lightest <= payload <= heaviest:
        raise CommandError(f"--payload {payload:g}: {robot.name} takes {lightest:g} to {heaviest:g} kg.")
    return payload


def _validate(robot: Robot, recipe: str, change: str | None, episodes: int) -> tuple[str, float] | None:
    """The change as (kind, factor).

    Raises:
        CommandError: an option's value, or a combination, makes no sense.
    """
    if recipe not in RECIPES:
        raise CommandError(f"--recipe {recipe}: expected one of {', '.join(RECIPES)}.")
    if change is None:
        return None
    match = re.fullmatch(r"(pole_mass|gain)=([0-9.]+)", change)
    if match is None or not 0.05 <= float(match[2]) <= 50.0:
        raise CommandError(
            f"--change {change}: expected pole_mass=FACTOR or gain=FACTOR, factor 0.05 to 50, e.g. pole_mass=10."
        )
    if not _changeable(robot):
        able = ", ".join(each.name for each in ROBOTS if _changeable(each))
        raise CommandError(f"--change is for --robot {able}: on one pole feedback alone copes with it.")
    if episodes < 5:
        raise CommandError(
            f"--change happens in the fourth episode and needs two more; --episodes {episodes} is too few."
        )
    return match[1], float(match[2])


def _changeable(robot: Robot) -> bool:
    return isinstance(robot.demo, SwingUpDemo) and robot.demo.change is not None
