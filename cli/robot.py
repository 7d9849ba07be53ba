"""`refit robot check FILE`: what is understood of a robot's model file, before anything moves."""

from __future__ import annotations

import json as json_format
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer
from rich.console import Console
from rich.table import Table

from cli.errors import CommandError
from config.whole_file import whole_file
from reporting import Report

if TYPE_CHECKING:
    from sim_core.adoption.adopter import Adoption
    from sim_core.adoption.survey import Survey

__all__ = ["app"]

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    no_args_is_help=False,
    help="""
Robots that you bring: a URDF, xacro or MJCF file instead of a robot's name.

What such a file does not say (the tool, a home pose, gains) is derived from it;
`check` shows every number, and leaves them in a file that you correct.

docs/robots.md lists the rules.
""",
)


@app.callback()
def robot() -> None:
    """Makes `check` a word of its own."""


@app.command()
def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="the robot's .urdf, .xacro or .xml (MJCF)")],
    output: Annotated[
        Optional[Path], typer.Option(help="where the side file goes; default: beside FILE, where it is found again")
    ] = None,
    report: Annotated[Optional[Path], typer.Option(help="write a page with tables and a picture to this file")] = None,
    json: Annotated[Optional[Path], typer.Option(help="write everything to this file as JSON")] = None,
) -> int:
    """
    Show what was understood of a robot: tree, limits, masses, what joint motion can tell, and what was derived.

    Tool, home, limits, payload and gains are written to FILE's side file
    (my_arm.urdf: my_arm.refit.yaml), which every command reads: correct it there.
    A side file that exists is used and left as it is.

    ./refit robot check my_arm.urdf --report my_arm.html
    ./refit demo --robot my_arm.urdf

    Exit code 0: the robot can be used; 2: it cannot, and one sentence says why.
    """
    from sim_core.adoption.adopt import is_model_file, name_of
    from sim_core.adoption.adopter import adopt
    from sim_core.adoption.errors import AdoptionError
    from sim_core.adoption.side_file import SideFileError, read_side_file, side_file_of
    from sim_core.adoption.survey import side_file_text, survey

    path = file.expanduser().resolve()
    if not is_model_file(path) or not path.is_file():
        raise CommandError(f"expected a .urdf, .xacro or .xml file, found {file}")
    beside = side_file_of(path)
    try:
        adoption = adopt(path, name_of(path), read_side_file(beside))
        found = survey(adoption)
    except (AdoptionError, SideFileError) as error:
        raise CommandError(f"{error}.") from None
    console = Console()
    _show(console, adoption, found)
    target = output or beside
    if target.exists():
        console.print(
            f"{target} was used and is left as it is; delete it to have everything derived anew.", markup=False
        )
    else:
        _write(target, side_file_text(adoption))
        console.print(f"Written: {target}. Correct what is wrong in it.", markup=False)
    if report is not None:
        _write(report, _page(adoption, found, path).html())
        console.print(f"Report: {report}", markup=False)
    if json is not None:
        _write(json, json_format.dumps(_document(adoption, found), indent=2))
    return 0


def _write(path: Path, text: str) -> None:
    try:
        with whole_file(path.expanduser()) as partial:
            partial.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror}.") from None


def _derived(adoption: Adoption) -> dict[str, Any]:
    """What everything else rests on, by what it is."""
    m, arm, shown = adoption.model, adoption.arm, adoption.demonstration
    point = ", ".join(f"{x:.3g}" for x in arm.position)
    home = ", ".join(f"{m.joint(j).name} {adoption.home[m.jnt_qposadr[j]]:.2f}" for j in arm.joints.tolist())
    return {
        "tool": f"{m.body(arm.tool_body).name} at ({point}) m",
        "payload body": m.body(arm.payload_body).name,
        "arm": ", ".join(m.joint(j).name for j in arm.joints.tolist()),
        "reach, m": float(f"{shown.reach:.3g}"),
        "home": home,
        "path, m": f"{2 * shown.width:.2g} wide, {2 * shown.height:.2g} high, {shown.period:.3g} s a round",
        "payload of the demonstration, kg": adoption.said.payload or shown.mass,
    }


def _show(console: Console, adoption: Adoption, found: Survey) -> None:
    from sim_core.adoption.survey import BODIES, JOINTS, told

    console.print(f"[bold]{adoption.title}[/bold], called {adoption.name}", highlight=False)
    console.print("\n".join(found.tree), markup=False, highlight=False)
    for title, headers, rows in (("Joints", JOINTS, found.joints), ("Links", BODIES, found.bodies)):
        table = Table(title=title, title_justify="left")
        for header in headers:
            table.add_column(header)
        for row in rows:
            table.add_row(*(f"{cell:.4g}" if isinstance(cell, float) else str(cell) for cell in row))
        console.print(table)
    table = Table(title="Derived, or said in its side file", title_justify="left", show_header=False)
    for name, value in _derived(adoption).items():
        table.add_row(name, str(value))
    console.print(table)
    console.print(told(found.told, _payload_body(adoption)), markup=False, highlight=False)
    for note in adoption.notes:
        console.print(f"Note: {note}", markup=False, highlight=False)


def _payload_body(adoption: Adoption) -> str:
    return str(adoption.model.body(adoption.arm.payload_body).name)


def _page(adoption: Adoption, found: Survey, path: Path) -> Report:
    from sim_core.adoption.survey import BODIES, JOINTS, told

    page = Report(adoption.title, str(path))
    mass = float(sum(row[1] for row in found.bodies))
    page.numbers({"joints": len(found.joints), "links": len(found.bodies), "mass, kg": mass})
    picture = _picture(adoption)
    if isinstance(picture, bytes):
        page.image(picture, "The robot at its home, drawn from its frames where its shapes are not at hand.")
    else:
        page.text(picture)
    page.section("Derived, or said in its side file").table(["what", "value"], list(_derived(adoption).items()))
    page.section("Joints", "Positions in rad or m, efforts in N m or N, rotors in kg m² or kg.").table(
        JOINTS, found.joints
    )
    page.section("Links").table(BODIES, found.bodies)
    page.section("Tree").table(["link <- joint"], [[line.replace("  ", "\u2003")] for line in found.tree])
    page.section("What joint motion tells", told(found.told, _payload_body(adoption)))
    if adoption.notes:
        page.section("Notes", "\n\n".join(adoption.notes))
    return page


def _picture(adoption: Adoption) -> bytes | str:
    """The robot at home, drawn in a process of its own: the drawing library is chosen before MuJoCo is imported."""
    for back_end in ("egl", "osmesa"):
        child = subprocess.run(
            [sys.executable, "-P", "-m", "cli.robot_picture"],
            input=adoption.files[f"{adoption.name}.xml"].encode(),
            capture_output=True,
            env={**os.environ, "MUJOCO_GL": back_end},
            check=False,
        )
        if child.returncode == 0:
            return child.stdout
    return "No picture: neither EGL nor OSMesa can draw here (Debian: apt-get install libegl1 libegl-mesa0)."


def _document(adoption: Adoption, found: Survey) -> dict[str, Any]:
    from sim_core.adoption.survey import BODIES, JOINTS

    return {
        "name": adoption.name,
        "title": adoption.title,
        "derived": _derived(adoption),
        "joints": [dict(zip(JOINTS, row)) for row in found.joints],
        "links": [dict(zip(BODIES, row)) for row in found.bodies],
        "identifiable": {
            "rank": found.told.rank,
            "of": len(found.told.names),
            "determined": list(found.told.base_names),
        },
        "notes": list(adoption.notes),
    }
