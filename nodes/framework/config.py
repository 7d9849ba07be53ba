"""Node parameters typed once: a frozen dataclass becomes declared ROS parameters.

    @dataclass(frozen=True)
    class MpcConfig:
        horizon: int = setting(20, "steps", (1, 200), "lookahead")
        refit_period: float = setting(0.5, "s", (0.02, 10.0), "time between refits")

    config = declare(node, MpcConfig)        # values after YAML and command line

A parameter's name may have dots that a field's cannot, `setting(..., name="reconnect.initial_s")`, and a field
`joints: dict[str, JointSettings] = group(JointSettings)` takes `joints.<name>.<field>` for every name that is given.

ROS drops a parameter file keyed to the wrong node name without a word, and unknown keys
too. So `declare` logs which values differ from their defaults and names every key given for
this node that it does not know, with the nearest name it does know.
"""

from __future__ import annotations

import array
import dataclasses
import difflib
import math
import typing
from collections.abc import Callable

from rcl_interfaces.msg import (
    FloatingPointRange,
    IntegerRange,
    ParameterDescriptor,
    SetParametersResult,
)
from rclpy.parameter import Parameter

__all__ = ["ConfigError", "Setting", "changed", "declare", "group", "setting", "settings"]

# Keys rclpy or launch declare by themselves; they are no business of a node's dataclass.
_FOREIGN = ("use_sim_time", "qos_overrides", "start_type_description_service", "autostart")


class ConfigError(ValueError):
    """A parameter value that the node cannot work with; the text says which and what may be."""


@dataclasses.dataclass(frozen=True)
class Setting:
    """What a reader of `ros2 param describe` and of the documentation needs to know."""

    name: str
    type: type  # float, int, bool or str; of each element if `many`
    many: bool
    default: object
    unit: str
    bounds: tuple[float | None, float | None] | None
    choices: tuple[str, ...]
    description: str
    read_only: bool
    field: str = ""  # of the dataclass, where it differs from the parameter's name

    @property
    def constraint(self) -> str:
        """Allowed values in words; empty if all values of the type are allowed."""
        if self.choices:
            return "one of " + ", ".join(self.choices)
        if self.bounds is None:
            return ""
        low, high = self.bounds
        each = "each " if self.many else ""
        unit = f" {self.unit}" if self.unit else ""
        if high is None:
            return f"{each}at least {low:g}{unit}"
        if low is None:
            return f"{each}at most {high:g}{unit}"
        return f"{each}{low:g} to {high:g}{unit}"

    def descriptor(self) -> ParameterDescriptor:
        """The same facts as ROS describes them."""
        unit = f" [{self.unit}]" if self.unit else ""
        descriptor = ParameterDescriptor(
            name=self.name,
            description=f"{self.description}{unit}",
            additional_constraints=self.constraint,
            read_only=self.read_only,
            # An empty array has no element type in ROS, so arrays are typed by `coerce`.
            dynamic_typing=self.many,
        )
        if self.bounds is not None and not self.many:
            low, high = self.bounds
            if self.type is int:
                descriptor.integer_range = [
                    IntegerRange(
                        from_value=-(2**63) if low is None else int(low),
                        to_value=2**63 - 1 if high is None else int(high),
                    )
                ]
            else:
                descriptor.floating_point_range = [
                    FloatingPointRange(
                        from_value=-math.inf if low is None else float(low),
                        to_value=math.inf if high is None else float(high),
                    )
                ]
        return descriptor

    def coerce(self, value):
        """`value` as this setting's type, checked.

        Raises:
            ConfigError: wrong type, outside the range, or not one of the choices.
        """
        if not self.many:
            return self._coerce_one(value)
        if isinstance(value, (str, bytes)) or not isinstance(value, (list, tuple, array.array)):
            raise self._error(value)
        return tuple(self._coerce_one(v) for v in value)

    def _coerce_one(self, value):
        # YAML writes 10 where 10.0 is meant; rclpy would refuse it, no reader would.
        if self.type is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        # And it reads 2 where one of the choices is the text "2".
        if type(value) is int and self.type is str and str(value) in self.choices:
            value = str(value)
        if type(value) is not self.type:
            raise self._error(value)
        if self.choices and value not in self.choices:
            near = difflib.get_close_matches(str(value), self.choices, 1)
            raise self._error(value, f" Did you mean '{near[0]}'?" if near else "")
        if self.bounds is not None:
            low, high = self.bounds
            inside = (low is None or value >= low) and (high is None or value <= high)
            if not inside:  # also catches NaN
                raise self._error(value)
        return value

    def _error(self, value, hint: str = "") -> ConfigError:
        kind = {float: "number", int: "integer", bool: "true or false", str: "text"}[self.type]
        expected = self.constraint or (f"a list, each {kind}" if self.many else kind)
        return ConfigError(f"Parameter '{self.name}' is {value!r}; expected {expected} ({self.description}).{hint}")


def setting(
    default,
    unit: str = "",
    bounds=None,
    description: str = "",
    *,
    choices: typing.Iterable[str] = (),
    read_only: bool = False,
    name: str = "",
):
    """A dataclass field that knows its unit, range and purpose.

    Args:
        default: value of the field; a tuple for array parameters.
        unit: SI unit or word ("steps"); empty for text and flags.
        bounds: (low, high), either may be None; for arrays they hold for each element.
        description: what the value does, in a few words.
        choices: allowed texts.
        read_only: a change while the node runs makes no sense.
        name: of the parameter, where it is not the field's.
    """
    return dataclasses.field(
        default=default,
        metadata={
            "unit": unit,
            "bounds": bounds,
            "description": description,
            "choices": tuple(choices),
            "read_only": read_only,
            "name": name,
        },
    )


def group(member_class):
    """A field {name: member_class} whose members are the names given: parameters `<field>.<name>.<member field>`."""
    return dataclasses.field(default_factory=dict, metadata={"group": member_class})


def settings(config_class, members: typing.Mapping[str, typing.Iterable[str]] | None = None) -> dict[str, Setting]:
    """The settings of a configuration dataclass by parameter name, in order of declaration.

    Args:
        members: names of the members of each group; None: one called `<name>`, as documentation writes it.
    """
    hints = typing.get_type_hints(config_class)
    found = {}
    for field in dataclasses.fields(config_class):
        if "group" in field.metadata:
            for member in ("<name>",) if members is None else members.get(field.name, ()):
                for name, item in settings(field.metadata["group"]).items():
                    full = f"{field.name}.{member}.{name}"
                    found[full] = dataclasses.replace(item, name=full, field=f"{field.name}.{member}.{item.field}")
            continue
        hint = hints[field.name]
        many = typing.get_origin(hint) is tuple
        kind = typing.get_args(hint)[0] if many else hint
        if kind not in (float, int, bool, str):
            raise TypeError(
                f"{config_class.__name__}.{field.name}: ROS parameters are float, int, bool, str "
                f"or tuple[one of them, ...], not {hint}."
            )
        name = field.metadata.get("name") or field.name
        found[name] = Setting(
            name,
            kind,
            many,
            field.default,
            field.metadata.get("unit", ""),
            field.metadata.get("bounds"),
            field.metadata.get("choices", ()),
            field.metadata.get("description", ""),
            field.metadata.get("read_only", False),
            field.name,
        )
    return found


def changed(config) -> dict[str, object]:
    """Parameters of `config` that differ from their defaults, by name."""
    members = {f.name: getattr(config, f.name) for f in dataclasses.fields(config) if "group" in f.metadata}
    values = {name: _value(config, item.field) for name, item in settings(type(config), members).items()}
    known = settings(type(config), members)
    return {name: value for name, value in values.items() if value != known[name].default}


def _value(config, path: str):
    """What a field's path leads to: `field`, or `group.member.field`."""
    if "." not in path:
        return getattr(config, path)
    head, rest = path.split(".", 1)
    member, last = rest.rsplit(".", 1)
    return getattr(getattr(config, head)[member], last)


def _build(config_class, values: dict[str, object], known: dict[str, Setting]):
    """The configuration of parameter values by name."""
    fields: dict[str, object] = {}
    groups: dict[str, dict[str, dict[str, object]]] = {}
    for name, value in values.items():
        path = known[name].field
        if "." in path:
            head, rest = path.split(".", 1)
            member, last = rest.rsplit(".", 1)
            groups.setdefault(head, {}).setdefault(member, {})[last] = value
        else:
            fields[path] = value
    classes = {f.name: f.metadata["group"] for f in dataclasses.fields(config_class) if "group" in f.metadata}
    for head, members in groups.items():
        fields[head] = {member: classes[head](**given) for member, given in members.items()}
    return config_class(**fields)


def _members(config_class, given) -> dict[str, list[str]]:
    """Names of the members of each group among the parameters given, in their order."""
    found: dict[str, list[str]] = {}
    for field in dataclasses.fields(config_class):
        if "group" not in field.metadata:
            continue
        ends = sorted((f".{name}" for name in settings(field.metadata["group"])), key=len, reverse=True)
        names = found.setdefault(field.name, [])
        for key in given:
            if not key.startswith(f"{field.name}."):
                continue
            rest = key[len(field.name) + 1 :]
            member = next((rest[: -len(end)] for end in ends if rest.endswith(end)), rest.split(".")[0])
            if member and member not in names:
                names.append(member)
    return found


def declare(node, config_class, on_change: Callable | None = None):
    """Declare every field as a ROS parameter and return the configuration in force.

    Args:
        node: an rclpy node.
        config_class: frozen dataclass made of `setting` fields. Its `__post_init__` may raise
            ValueError to refuse values that do not fit together.
        on_change: called as `on_change(new_config)` when a parameter changes at run time, after
            all checks passed; a ValueError it raises refuses the change. Without it,
            parameters cannot change at run time.

    Raises:
        ConfigError: a value given in YAML or on the command line cannot be used.
    """
    # rclpy offers no public view of the values that YAML and command line hold for a node.
    given = node._parameter_overrides
    known = settings(config_class, _members(config_class, given))
    log = node.get_logger()

    values = {}
    for name, item in known.items():
        value = item.default
        if name in given:
            value = item.coerce(given[name].value)
            given[name] = Parameter(name, value=list(value) if item.many else value)
        values[name] = value
    for name in given:
        if name not in known and name.split(".")[0] not in _FOREIGN:
            near = difflib.get_close_matches(name, known, 1, 0.5)
            hint = f"Did you mean '{near[0]}'?" if near else "Known: " + ", ".join(known) + "."
            log.warning(f"Parameter '{name}' is given for {node.get_name()} but unknown to it. {hint}")
    try:
        config = _build(config_class, values, known)
    except ConfigError:
        raise
    except ValueError as error:
        raise ConfigError(f"Parameters of {node.get_name()} do not fit together: {error}") from error

    for name, item in known.items():
        default = list(item.default) if item.many else item.default
        node.declare_parameter(name, default, item.descriptor())
    differing = changed(config)
    log.info(
        "All parameters at their defaults."
        if not differing
        else "Differs from defaults: "
        + ", ".join(f"{k}={v!r} (default {known[k].default!r})" for k, v in differing.items())
    )

    current = config

    def check(parameters) -> SetParametersResult:
        nonlocal current
        mine = [p for p in parameters if p.name in known]
        if not mine:
            return SetParametersResult(successful=True)
        try:
            if on_change is None:
                raise ConfigError(f"{node.get_name()} takes its parameters only at start.")
            update = {p.name: known[p.name].coerce(p.value) for p in mine}
            new = _build(
                config_class, {name: _value(current, item.field) for name, item in known.items()} | update, known
            )
            on_change(new)
        except ValueError as error:
            return SetParametersResult(successful=False, reason=str(error))
        current = new
        return SetParametersResult(successful=True)

    node.add_on_set_parameters_callback(check)
    return config
