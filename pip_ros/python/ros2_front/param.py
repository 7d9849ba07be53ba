"""`ros2 param`: parameters of running nodes."""

import os
import sys

import yaml

from .errors import EXIT_FAILED, FrontError, UsageError, choices
from .graph import complain, joined

#: as rcl_interfaces/msg/ParameterType numbers them: in a description, and before a value
TYPES = (
    ("not set", ""),
    ("boolean", "Boolean value is:"),
    ("integer", "Integer value is:"),
    ("double", "Double value is:"),
    ("string", "String value is:"),
    ("byte array", "Byte values are:"),
    ("boolean array", "Boolean values are:"),
    ("integer array", "Integer values are:"),
    ("double array", "Double values are:"),
    ("string array", "String values are:"),
)


def add_verbs(group):
    """Add the verbs of this group."""
    verb = group.verb("list", list_parameters, "list parameters of a node, or of all", "ros2 param list /supervisor")
    verb.add_argument("node", nargs="?", help="its name, as /supervisor; by default all nodes")
    verb.add_argument("--include-hidden-nodes", action="store_true", help="also nodes whose name begins with '_'")
    verb.add_argument("--param-prefixes", nargs="+", default=[], metavar="PREFIX", help="only those that begin so")
    verb.add_argument("--param-type", action="store_true", help="show each one's type")

    verb = _verb(group, "get", get, "show the value of a parameter", "ros2 param get /supervisor use_sim_time")
    verb.add_argument("name", help="of the parameter")
    verb.add_argument("--hide-type", action="store_true", help="the value alone")

    verb = _verb(group, "set", set_value, "set a parameter", "ros2 param set /stance_controller solver osqp")
    verb.add_argument("name", help="of the parameter")
    verb.add_argument("value", help="in YAML, as 0.5, true, text or [1, 2]")

    verb = _verb(group, "describe", describe, "tell what a parameter may be", "ros2 param describe /supervisor robot")
    verb.add_argument("names", nargs="+", metavar="name", help="of the parameter")

    _verb(group, "dump", dump, "print all parameters of a node as a file for load", "ros2 param dump /supervisor")

    verb = _verb(
        group, "load", load, "set a node's parameters from a file", "ros2 param load /stance_controller parameters.yaml"
    )
    verb.add_argument("file", help="as dump prints it; its entry for this node, or for '/**', is used")
    verb.add_argument("--no-use-wildcard", action="store_true", help="leave the entry for '/**' out")

    verb = _verb(group, "delete", delete, "delete a parameter that was not declared", "ros2 param delete /node name")
    verb.add_argument("name", help="of the parameter")


def _verb(group, name, function, text, example):
    verb = group.verb(name, function, text, example)
    verb.add_argument("node", help="its name, as /supervisor")
    return verb


class _Node:
    """The parameters of a node that is there."""

    def __init__(self, graph, name):
        self._graph, self.name = graph, name

    def _call(self, kind, service, **fields):
        from rcl_interfaces import srv

        kind = getattr(srv, kind)
        return self._graph.call(kind, f"{self.name}/{service}", kind.Request(**fields))

    def names(self, prefixes=()):
        """Sorted names of its parameters."""
        return sorted(self._call("ListParameters", "list_parameters", prefixes=list(prefixes)).result.names)

    def require(self, *names):
        """Refuse names of parameters that it has not.

        Raises:
            FrontError: there is no such parameter.
        """
        known = self.names()
        for name in names:
            if name not in known:
                raise FrontError(f"node {self.name} has no parameter '{name}'; {choices(name, known)}")

    def values(self, names):
        """rcl_interfaces/ParameterValue of each."""
        return self._call("GetParameters", "get_parameters", names=list(names)).values

    def descriptions(self, names):
        """rcl_interfaces/ParameterDescriptor of each."""
        return self._call("DescribeParameters", "describe_parameters", names=list(names)).descriptors

    def set(self, values):
        """{name: ParameterValue} -> rcl_interfaces/SetParametersResult of each."""
        from rcl_interfaces.msg import Parameter

        parameters = [Parameter(name=name, value=value) for name, value in values.items()]
        return self._call("SetParameters", "set_parameters", parameters=parameters).results


def list_parameters(options):
    """`ros2 param list`."""
    with joined(options) as graph:
        if options.node:
            names = [graph.find_node(options.node)]
        else:
            graph.settle()
            names = _offering(graph, options.include_hidden_nodes)
            if not names:
                raise FrontError(f"no node with parameters; {graph.remedy('', [])}")
        for full in names:
            node = _Node(graph, full)
            try:
                found = node.names(options.param_prefixes)
                types = node.descriptions(found) if options.param_type else ()
            except FrontError as error:
                if options.node:
                    raise
                complain(f"{full}: {error}")
                continue
            if not options.node:
                print(f"{full}:")
            for index, name in enumerate(found):
                print(f"  {name}{f' (type: {TYPES[types[index].type][0]})' if types else ''}", flush=True)


def _offering(graph, hidden):
    """Full names of the nodes that offer their parameters."""
    services = graph.services()
    return [name for name in dict.fromkeys(graph.nodes(hidden)) if f"{name}/list_parameters" in services]


def get(options):
    """`ros2 param get`."""
    with joined(options) as graph:
        node = _Node(graph, graph.find_node(options.node))
        values = node.values([options.name])
        if not values or values[0].type == 0:
            node.require(options.name)
            print("Parameter not set.")
            return 0
        label = "" if options.hide_type else f"{TYPES[values[0].type][1]} "
        print(f"{label}{_python(values[0])}")
    return 0


def set_value(options):
    """`ros2 param set`."""
    with joined(options) as graph:
        node = _Node(graph, graph.find_node(options.node))
        kinds = [descriptor.type for descriptor in node.descriptions([options.name])]
        result = node.set({options.name: _value(options.value, kinds[0] if kinds else 0)})[0]
        if result.successful:
            print("Set parameter successful" + (f": {result.reason}" if result.reason else ""))
            return 0
        if not kinds or kinds[0] == 0:
            node.require(options.name)
        print(f"Setting parameter failed: {result.reason or 'the node gave no reason'}", file=sys.stderr)
        return EXIT_FAILED


def describe(options):
    """`ros2 param describe`."""
    with joined(options) as graph:
        node = _Node(graph, graph.find_node(options.node))
        node.require(*options.names)
        for descriptor in node.descriptions(options.names):
            print(f"Parameter name: {descriptor.name}")
            print(f"  Type: {TYPES[descriptor.type][0]}")
            if descriptor.description:
                print(f"  Description: {descriptor.description}")
            print("  Constraints:")
            if descriptor.read_only:
                print("    Read only: true")
            for limits in [*descriptor.floating_point_range, *descriptor.integer_range]:
                print(f"    Min value: {limits.from_value}\n    Max value: {limits.to_value}")
                if limits.step:
                    print(f"    Step: {limits.step}")
            if descriptor.additional_constraints:
                print(f"    Additional constraints: {descriptor.additional_constraints}")


def dump(options):
    """`ros2 param dump`."""
    with joined(options) as graph:
        node = _Node(graph, graph.find_node(options.node))
        names = node.names()
        found = {name: _python(value) for name, value in zip(names, node.values(names), strict=True) if value.type}
    tree = {}
    for name, value in found.items():
        *path, last = name.split(".")
        # A name may be a branch as well ('a' and 'a.b'): then it keeps its dots, which load takes, too.
        branch = tree
        for part in path:
            branch = branch.setdefault(part, {}) if isinstance(branch, dict) else None
        if not isinstance(branch, dict) or isinstance(branch.get(last), dict):
            branch, last = tree, name
        branch[last] = value
    print(yaml.safe_dump({node.name: {"ros__parameters": tree}}, sort_keys=False, allow_unicode=True), end="")


def load(options):
    """`ros2 param load`."""
    given = _file(options.file)
    with joined(options) as graph:
        node = _Node(graph, graph.find_node(options.node))
        wanted = {}
        for entry in (("/**",) if not options.no_use_wildcard else ()) + (node.name.lstrip("/"), node.name):
            if isinstance(given.get(entry), dict):
                wanted.update(_flat(given[entry].get("ros__parameters") or {}))
        if not wanted:
            raise UsageError(f"{options.file} has no parameters of {node.name}; it has entries for: {_listed(given)}")
        kinds = {descriptor.name: descriptor.type for descriptor in node.descriptions(wanted)}
        values = {name: _parameter(value, kinds.get(name, 0)) for name, value in wanted.items()}
        failed = 0
        for name, result in zip(wanted, node.set(values), strict=True):
            if result.successful:
                print(f"Set parameter {name} successful" + (f": {result.reason}" if result.reason else ""))
            else:
                failed = EXIT_FAILED
                print(f"Set parameter {name} failed: {result.reason}", file=sys.stderr)
    return failed


def delete(options):
    """`ros2 param delete`."""
    from rcl_interfaces.msg import ParameterValue

    with joined(options) as graph:
        node = _Node(graph, graph.find_node(options.node))
        node.require(options.name)
        result = node.set({options.name: ParameterValue()})[0]
    if result.successful:
        print("Deleted parameter successfully")
        return 0
    print(f"Deleting parameter failed: {result.reason or 'the node gave no reason'}", file=sys.stderr)
    return EXIT_FAILED


def _file(path):
    if not os.path.isfile(path):
        raise UsageError(f"there is no file '{path}'")
    try:
        with open(path, encoding="utf-8") as lines:
            given = yaml.safe_load(lines)
    except (yaml.YAMLError, OSError, UnicodeDecodeError) as error:
        raise UsageError(f"'{path}' cannot be read as YAML: {' '.join(str(error).split())}") from None
    if not isinstance(given, dict):
        raise UsageError(f"'{path}' is no parameter file: expected '/node: {{ros__parameters: {{...}}}}'")
    return given


def _listed(given):
    return ", ".join(map(str, given)) or "nobody"


def _flat(tree, prefix=""):
    found = {}
    for name, value in tree.items():
        if isinstance(value, dict):
            found.update(_flat(value, f"{prefix}{name}."))
        else:
            found[f"{prefix}{name}"] = value
    return found


def _value(word, kind):
    """rcl_interfaces/ParameterValue of a word on the command line, for a parameter of a type (0: not known)."""
    if TYPES[kind][0] == "string":
        try:
            value = yaml.safe_load(word)
        except yaml.YAMLError:
            value = word
        return _parameter(value if isinstance(value, str) else word, kind)
    try:
        return _parameter(yaml.safe_load(word), kind, word)
    except yaml.YAMLError:
        return _parameter(word, kind)


def _parameter(value, kind, word=""):
    """rcl_interfaces/ParameterValue of a value; whole numbers are doubles where the parameter is one."""
    from rclpy.parameter import Parameter

    if TYPES[kind][0] == "double" and type(value) is int:
        value = float(value)
    if isinstance(value, list):
        if TYPES[kind][0] == "double array" or any(type(item) is float for item in value):
            value = [float(item) if type(item) is int else item for item in value]
        if TYPES[kind][0] == "byte array":
            value = [bytes([item]) for item in value]
        if not value and kind:  # an empty list has the type of the parameter that it is for
            return Parameter("x", Parameter.Type(kind), []).get_parameter_value()
    if isinstance(value, dict) or value is None:
        value = word or str(value)
    try:
        return Parameter("x", value=value).get_parameter_value()
    except (TypeError, ValueError) as error:
        raise UsageError(f"'{word or value}' cannot be a parameter: {error}") from None


def _python(value):
    """A ParameterValue as YAML and people write it."""
    from rclpy.parameter import parameter_value_to_python

    found = parameter_value_to_python(value)
    if isinstance(found, list):
        return [item[0] if isinstance(item, bytes) else item for item in found]
    return found
