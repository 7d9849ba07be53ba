"""`refit security create DIR`: keys, certificates and permissions for everybody in a robot's graph."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli.errors import as_command_error
from config.robot import DEFAULT
from config.tiers import require
from nodes.framework.security import OPERATOR, middleware_lacks

__all__ = ["app"]

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    no_args_is_help=False,
    help="""
Keys for a robot's graph: who may join it, and what each node may say and hear.

Without keys a graph is guarded by staying on this machine: its sockets are on
127.0.0.1 and nowhere else. Keys are for graphs that leave it.

docs/security.md explains both.
""",
)


@app.callback()
def security() -> None:
    """Makes `create` a word of its own."""


@app.command()
def create(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="new folder, or a keystore that goes on")],
    robot: Annotated[str, typer.Option(help="robot in config/robots, or the path of a robot's folder")] = DEFAULT,
    namespace: Annotated[str, typer.Option(help="of the launch, if the robot has one")] = "",
    days: Annotated[int, typer.Option(help="how long certificates and permissions are valid", min=1)] = 3650,
) -> None:
    """
    Make a keystore for a robot: an authority, and for each node a key, a certificate and signed permissions.

    A node may publish and hear what its source does and no more: the supervisor
    alone its status, the controller alone joint commands. The operator (/), who
    launches and drives, hears everything, calls everything, and publishes only
    what nodes wait for and no node says, such as cmd_vel.

    ./refit security create keys --robot dxl_arm
    ./refit launch robot.launch.py robot:=dxl_arm secure:=true keystore:=keys

    Run it again to renew permissions: the authority and the keys that are there
    stay.

    DIR/private holds the authority's key. Whoever has it can let anybody in:
    keep it away from the robot, which needs DIR/enclaves and DIR/public only.
    """
    require("security", "security create")
    from cli.security_keystore import Keystore
    from cli.security_permissions import members

    with as_command_error(ValueError, OSError):
        everybody = members(robot, namespace)
        keystore = Keystore(folder, days)
        for member in everybody:
            keystore.add(member)
    named = ", ".join(member.enclave for member in everybody if member.enclave != OPERATOR)
    print(f"Keys, certificates and permissions in {folder}, valid for {days} days: the operator, {named}.")
    print(f"Keep {folder}/private away from the robot. Then: secure:=true keystore:={folder}")
    if why := middleware_lacks():
        print(f"Not on this machine, though: {why}.")
