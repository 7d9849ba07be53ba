"""`ros2 interface`: the types of messages, services and actions that are installed."""

import re
import sys

from . import kinds, text
from .errors import UsageError, choices

#: types of fields that are no messages
_PRIMITIVE = re.compile(r"(bool|byte|char|float32|float64|u?int(8|16|32|64)|w?string)(<=\d+)?\Z")
_FIELD = re.compile(r"(?P<type>[\w/]+(?:<=\d+)?)(?:\[[^]]*\])?\s+[A-Za-z]\w*\s*(?P<rest>.*)\Z")
_TITLES = {"msg": "Messages", "srv": "Services", "action": "Actions"}


def add_verbs(group):
    """Add the verbs of this group."""
    verb = group.verb("list", list_types, "list all types", "ros2 interface list --only-msgs", graph=False)
    _only(verb)

    verb = group.verb("packages", packages, "list the packages with types", "ros2 interface packages", graph=False)
    _only(verb)

    verb = group.verb("package", package, "list a package's types", "ros2 interface package std_srvs", graph=False)
    verb.add_argument("package", help="its name")

    verb = group.verb(
        "show",
        show,
        "show the definition of a type",
        "ros2 interface show sensor_msgs/msg/JointState\n  ros2 topic type /joint_states | ros2 interface show -",
        graph=False,
    )
    verb.add_argument("type", help="as sensor_msgs/msg/JointState; '-' reads it from the input")
    comments = verb.add_mutually_exclusive_group()
    comments.add_argument("--all-comments", action="store_true", help="also those of the messages in it")
    comments.add_argument("--no-comments", action="store_true", help="without comments and empty lines")

    verb = group.verb(
        "proto",
        proto,
        "print a type's values to be filled in",
        "ros2 interface proto std_srvs/srv/SetBool",
        graph=False,
    )
    verb.add_argument("type", help="as geometry_msgs/msg/Twist; of a service its request, of an action its goal")
    verb.add_argument("--no-quotes", action="store_true", help="without the quotes around it")


def _only(verb):
    for kind, title in _TITLES.items():
        verb.add_argument(
            f"-{kind[0]}",
            f"--only-{kind}s",
            action="append_const",
            dest="only",
            const=kind,
            help=f"{title.lower()} alone",
        )


def list_types(options):
    """`ros2 interface list`."""
    found = kinds.interfaces()
    for kind in options.only or _TITLES:
        print(f"{_TITLES[kind]}:")
        for name, entries in sorted(found.items()):
            for entry in entries:
                if entry.startswith(f"{kind}/"):
                    print(f"    {name}/{entry}")


def packages(options):
    """`ros2 interface packages`."""
    wanted = tuple(f"{kind}/" for kind in options.only or _TITLES)
    for name, entries in sorted(kinds.interfaces().items()):
        if any(entry.startswith(wanted) for entry in entries):
            print(name)


def package(options):
    """`ros2 interface package`."""
    found = kinds.interfaces()
    if options.package not in found:
        raise UsageError(f"there is no package '{options.package}' with types; {choices(options.package, found)}")
    for entry in found[options.package]:
        print(f"{options.package}/{entry}")


def show(options):
    """`ros2 interface show`."""
    name = sys.stdin.readline().strip() if options.type == "-" else options.type
    for line in definition_lines(name, not options.no_comments, options.all_comments):
        print(line)


def definition_lines(name, comments=True, inner_comments=False, depth=0):
    """A type's definition, with those of the messages in it below their fields, each a tab further in.

    Args:
        name: of the type. comments: whether its own are shown. inner_comments: whether those of the messages in it are.

    Raises:
        UsageError: there is no such type.
    """
    home = kinds.split(name, "msg")[0]
    with open(kinds.definition(name), encoding="utf-8") as lines:
        for line in map(str.rstrip, lines):
            code = without_comment(line)
            if comments or code:
                shown = line if comments else code
                yield f"{depth * chr(9)}{shown}" if shown else ""
            if nested := nested_type(code, home):
                yield from definition_lines(nested, inner_comments, inner_comments, depth + 1)


def without_comment(line):
    """A line of a definition without its comment; a '#' in a quoted text begins none."""
    quote = ""
    for at, sign in enumerate(line):
        if quote:
            quote = "" if sign == quote and line[at - 1] != "\\" else quote
        elif sign in "'\"":
            quote = sign
        elif sign == "#":
            return line[:at].rstrip()
    return line.rstrip()


def nested_type(code, package):
    """ "package/msg/Type" of the message that a line's field is, or ""."""
    match = _FIELD.match(code.strip())
    if match is None or match["rest"].startswith("=") or _PRIMITIVE.match(match["type"]):
        return ""
    kind = match["type"]
    if "/" not in kind:
        return f"{package}/msg/{kind}"
    return kind if "/msg/" in kind else kind.replace("/", "/msg/")


def proto(options):
    """`ros2 interface proto`."""
    _, group, _ = kinds.split(options.type, "msg")
    kind = kinds.load(options.type, group)
    message = {"msg": lambda: kind, "srv": lambda: kind.Request, "action": lambda: kind.Goal}[group]()()
    shown = text.to_yaml(message)
    print(shown if options.no_quotes else f'"{shown}"')
