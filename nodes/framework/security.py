"""A guarded graph: who a node is in it, what the middleware is told, and whether it was built for that.

Keys and permissions are made by `refit security create`. ROS 2 finds them by environment variables and each node's
enclave, which is named like the node. Standard library alone: the doctor asks here before anything is installed.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

__all__ = ["OPERATOR", "check_secure", "enclave", "enclave_arguments", "middleware_lacks", "variables"]

#: enclave of whoever starts the graph, drives it or looks at it
OPERATOR = "/"

# What a participant without its files is told by a middleware that can guard it.
_FILES_ARE_MISSING = "security files"
# Time for a Python with rclpy to start on a busy machine [s].
_PATIENCE = 60.0
_TRIAL = """
import rclpy
from rclpy.node import Node
rclpy.init()
node = Node("security_trial", start_parameter_services=False, enable_rosout=False)
print("guarded")
"""


def enclave(namespace: str, node: str, inner: str = "") -> str:
    """Of a node: its name in the graph. `inner` is its own namespace below that of the launch."""
    return "/" + "/".join(filter(None, (namespace.strip("/"), inner.strip("/"), node)))


def variables(value: Mapping[str, str]) -> dict[str, str]:
    """Environment of a launch with `secure:=true keystore:=DIR`; empty without. `value` is {launch argument: text}."""
    if value.get("secure") != "true":
        return {}
    return {
        "ROS_SECURITY_ENABLE": "true",
        "ROS_SECURITY_STRATEGY": "Enforce",  # without keys a node does not start; the default lets it speak in clear
        "ROS_SECURITY_KEYSTORE": str(Path(value["keystore"]).expanduser().resolve()),
    }


def enclave_arguments(value: Mapping[str, str], node: str, inner: str = "") -> list[str]:
    """ROS arguments that name a node's enclave, if the launch is secure."""
    return ["--enclave", enclave(value["namespace"], node, inner)] if value.get("secure") == "true" else []


def check_secure(value: Mapping[str, str]) -> None:
    """Refuse a launch that would not be guarded although it was asked to be.

    Raises:
        ValueError: one sentence that says what is missing and what to do.
    """
    keystore = value.get("keystore", "")
    if value.get("secure") != "true":
        if keystore:
            raise ValueError(f"keystore:={keystore} is only used with secure:=true; give both, or neither")
        return
    if not keystore:
        raise ValueError("secure:=true needs keystore:=DIR, which ./refit security create DIR makes")
    if why := middleware_lacks():
        raise ValueError(f"secure:=true: {why}; leave it out, or source a ROS 2 Jazzy whose middleware has security")
    if not (Path(keystore).expanduser() / "enclaves" / "governance.p7s").is_file():
        raise ValueError(
            f"keystore:={keystore}: has no enclaves/governance.p7s; make it with ./refit security create DIR"
        )


@functools.cache
def middleware_lacks() -> str:
    """Why no graph can be guarded here, by a trial: a process that joins one and must have its files. "" if one can be."""
    with tempfile.TemporaryDirectory(prefix="refit-security-") as folder:
        (Path(folder) / "enclaves").mkdir()
        told = variables({"secure": "true", "keystore": folder})
        try:
            trial = subprocess.run(
                [sys.executable, "-P", "-c", _TRIAL],
                capture_output=True,
                text=True,
                timeout=_PATIENCE,
                env={**os.environ, **told},
                stdin=subprocess.DEVNULL,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"the middleware could not be tried ({error})"
    if "guarded" in trial.stdout or _FILES_ARE_MISSING in trial.stderr:
        return ""
    said = next((line for line in trial.stderr.splitlines() if "Error" in line or "error" in line), "it said nothing")
    return f"the middleware was built without security ({said.rpartition('node: ')[2].strip()})"
