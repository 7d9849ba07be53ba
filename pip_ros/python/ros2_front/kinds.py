"""Types of messages, services and actions: by name, and where their definitions are."""

import importlib
import os
import re

from .errors import FrontError, UsageError, choices

KINDS = {"msg": "message", "srv": "service", "action": "action"}
_PART = re.compile(r"[A-Za-z]\w*\Z")


def load(name, kind):
    """The class of a type.

    Args:
        name: "package/msg/Type" or "package/Type". kind: "msg", "srv" or "action".

    Raises:
        UsageError: that is no type's name, or it is not installed.
    """
    package, given, kind_name = split(name, kind)
    # A part of an action or a service is a message, as Lookup_FeedbackMessage.
    if given != kind and not (kind == "msg" and "_" in kind_name):
        raise UsageError(f"'{name}' is a {KINDS.get(given, given)}, expected a {KINDS[kind]} (package/{kind}/Type)")
    try:
        module = importlib.import_module(f"{package}.{given}")
    except ModuleNotFoundError as error:
        if error.name not in (package, f"{package}.{given}"):
            raise
        raise UsageError(f"{KINDS[kind]} type '{name}' is not installed: {_lacking(package, given)}") from None
    found = getattr(module, kind_name, None) or _of_an_action(package, given, kind_name)
    if found is None:
        known = [f"{package}/{entry}" for entry in interfaces().get(package, []) if entry.startswith(f"{given}/")]
        raise UsageError(f"there is no type '{package}/{given}/{kind_name}'; {choices(name, known)}")
    return found


def split(name, kind):
    """(package, "msg", "srv" or "action", type) of a type's name; `kind` where it says none.

    Raises:
        UsageError: it is none.
    """
    parts = name.split("/")
    if len(parts) == 2:
        parts.insert(1, kind)
    if len(parts) != 3 or parts[1] not in KINDS or not all(_PART.match(part) for part in parts):
        raise UsageError(f"'{name}' is not the name of a type, expected package/{kind}/Type (ros2 interface list)")
    return parts


def _of_an_action(package, given, name):
    """A message that an action is made of, as Lookup_FeedbackMessage, which its package does not name."""
    if given != "action" or "_" not in name:
        return None
    action, _, part = name.rpartition("_")
    whole = getattr(importlib.import_module(f"{package}.action"), action, None)
    return getattr(whole, part, None) or getattr(getattr(whole, "Impl", None), part, None)


def _lacking(package, kind):
    packages = interfaces()
    if package in packages:
        return f"package '{package}' has no {KINDS[kind]}s"
    return f"there is no package '{package}'; {choices(package, packages)} (ros2 interface packages)"


def interfaces():
    """{package: sorted ["msg/Type", "srv/Type", "action/Type", ...]} of all that is installed."""
    from ament_index_python import get_resource, get_resources

    found = {}
    for package in get_resources("rosidl_interfaces"):
        lines = get_resource("rosidl_interfaces", package)[0].splitlines()
        names = {os.path.splitext(line)[0] for line in lines if line.endswith((".idl", ".msg", ".srv", ".action"))}
        found[package] = sorted(name for name in names if name.partition("/")[0] in KINDS and _whole(name, names))
    return found


def _whole(name, names):
    """Whether it is a type of its own and no part of a service or an action."""
    base, _, part = name.rpartition("_")
    return not (part in ("Request", "Response", "Event", "Goal", "Result", "Feedback") and base in names)


def definition(name, kind="msg"):
    """The path of the file that defines a type.

    Raises:
        UsageError: there is none.
        FrontError: the file is not where the index says.
    """
    from ament_index_python import get_package_share_directory

    package, kind, kind_name = split(name, kind)
    packages = interfaces()
    if package not in packages:
        raise UsageError(f"there is no package '{package}'; {choices(package, packages)} (ros2 interface packages)")
    if f"{kind}/{kind_name}" not in packages[package]:
        known = [f"{package}/{entry}" for entry in packages[package]]
        raise UsageError(f"there is no type '{package}/{kind}/{kind_name}'; {choices(name, known)}")
    folder = os.path.join(get_package_share_directory(package), kind)
    for suffix in (kind, "idl"):
        path = os.path.join(folder, f"{kind_name}.{suffix}")
        if os.path.isfile(path):
            return path
    raise FrontError(f"the definition of '{name}' is not in {folder}")
