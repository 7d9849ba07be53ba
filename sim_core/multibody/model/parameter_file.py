"""Physical parameters as a YAML file that plant and controller load (`params_file:=`).

    robot: panda
    model_hash: 5f0c...                # of the model the values belong to; RobotModel.hash
    parameters:                        # any subset of the model's physical vector
      hand.mass: {value: 2.76, std: 0.01, unit: kg}
      joint1.damping: {value: 1.02, std: 0.05, unit: N m s/rad}
    sensor:                            # optional, for the controller's state prediction
      delay: {value: 0.003, std: 0.0001, unit: s}
    blueprint: blueprint.yaml          # optional: networks that the values hold with, relative to this file

Parameters not named keep the model's own values.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import yaml

from config import yaml_text
from config.whole_file import whole_file
from sim_core.multibody.equations.inertia import is_physical
from sim_core.multibody.equations.physical_vector import INERTIA_FIELDS, PhysicalVector
from sim_core.multibody.model.physical_check import PhysicalCheck

if TYPE_CHECKING:
    from sim_core.multibody.model.model import RobotModel

__all__ = ["ParameterFile", "ParameterFileError", "ParameterValue"]

_KEYS = {"robot", "model_hash", "parameters", "sensor", "blueprint"}
_SENSOR_UNITS = {"delay": "s"}


class ParameterFileError(ValueError):
    """A parameter file that cannot be used; one line: file, expected, found, what to do."""


@dataclass(frozen=True)
class ParameterValue:
    """value and one standard deviation (NaN where unknown) in `unit` (SI)."""

    value: float
    std: float
    unit: str


@dataclass(frozen=True)
class ParameterFile:
    """Contents of a parameter file.

    Attributes:
        robot: model name. model_hash: RobotModel.hash the values belong to.
        parameters: by name in the physical vector. sensor: "delay" [s], or empty.
        blueprint: file of networks in the equations (docs/augmentation.md) relative to this file, or "".
    """

    robot: str
    model_hash: str
    parameters: dict[str, ParameterValue]
    sensor: dict[str, ParameterValue] = field(default_factory=dict)
    path: str = "parameter file"
    blueprint: str = ""

    @property
    def networks(self) -> str:
        """Path of the blueprint, or ""."""
        return str(Path(self.path).parent / self.blueprint) if self.blueprint else ""

    @classmethod
    def from_vector(
        cls,
        model: RobotModel,
        p: np.ndarray,
        covariance: np.ndarray,
        names: Iterable[str] | None = None,
        sensor: Mapping[str, ParameterValue] | None = None,
        model_hash: str | None = None,
    ) -> ParameterFile:
        """Entries `names` of a physical vector (those that differ from nominal by default).

        Args:
            covariance: of p, shape (np_, np_).
            model_hash: of the model with default options, where `model` was loaded with others.
        """
        layout = model.parameters
        if names is None:
            names = [n for n, a, b in zip(layout.names, p, layout.nominal) if a != b]
        std = np.sqrt(np.clip(np.diag(covariance), 0.0, None))
        entries = {}
        for name in names:
            i = layout.index(name)
            entries[name] = ParameterValue(float(p[i]), float(std[i]), layout.units[i])
        return cls(model.name, model_hash or model.hash, entries, dict(sensor or {}))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> ParameterFile:
        """Read and validate the file's form; `vector` validates it against a model.

        Raises:
            ParameterFileError: missing, not YAML, or not of the form above; or its blueprint is missing.
        """
        path = Path(path)
        try:
            document = yaml_text.load(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise ParameterFileError(f"{path}: cannot be read ({error.strerror}); check params_file") from None
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            line = getattr(getattr(error, "problem_mark", None), "line", None)
            where = f" near line {line + 1}" if line is not None else ""
            raise ParameterFileError(f"{path}: is not YAML{where}; `refit identify` writes such a file") from None
        if not isinstance(document, dict):
            raise ParameterFileError(f"{path}: expected keys robot, model_hash, parameters, found {_kind(document)}")
        required = ("robot", "model_hash", "parameters")
        missing = [key for key in required if key not in document]
        if missing:
            raise ParameterFileError(f"{path}: key '{missing[0]}' is missing; expected {', '.join(required)}")
        unknown = document.keys() - _KEYS
        if unknown:
            first = sorted(map(str, unknown))[0]
            raise ParameterFileError(f"{path}: unknown key '{first}'; known: {', '.join(sorted(_KEYS))}")
        for key in ("robot", "model_hash"):
            if not isinstance(document[key], str) or not document[key]:
                raise ParameterFileError(f"{path}: {key} must be text, found {document[key]!r}; put quotes around it")
        parameters = _entries(path, "parameters", document["parameters"])
        sensor = _entries(path, "sensor", document.get("sensor") or {})
        for name, entry in sensor.items():
            if _SENSOR_UNITS.get(name) != entry.unit:
                raise ParameterFileError(f"{path}: sensor.{name} [{entry.unit}] is unknown; known: delay [s]")
        blueprint = document.get("blueprint", "")
        if not isinstance(blueprint, str):
            raise ParameterFileError(f"{path}: blueprint must be the path of a file, found {blueprint!r}")
        file = cls(document["robot"], document["model_hash"], parameters, sensor, str(path), blueprint)
        if blueprint and not Path(file.networks).is_file():
            raise ParameterFileError(
                f"{path}: its blueprint {file.networks} is missing; keep the files together, or take out "
                "the line and identify again"
            )
        return file

    def text(self) -> str:
        """The file's content."""

        def plain(entries: Mapping[str, ParameterValue]) -> dict[str, dict[str, float | str]]:
            return {name: {"value": e.value, "std": e.std, "unit": e.unit} for name, e in entries.items()}

        document = {"robot": self.robot, "model_hash": self.model_hash, "parameters": plain(self.parameters)}
        if self.sensor:
            document["sensor"] = plain(self.sensor)
        if self.blueprint:
            document["blueprint"] = self.blueprint
        return yaml.safe_dump(document, sort_keys=False, default_flow_style=None)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the file, whole or not at all. Returns the path."""
        with whole_file(path) as partial:
            partial.write_text(self.text(), encoding="utf-8")
        return Path(path)

    def vector(self, model: RobotModel, check_hash: bool = True) -> np.ndarray:
        """The model's physical vector with the file's values, shape (np_,).

        Args:
            check_hash: refuse values identified for another version of the model.

        Raises:
            ParameterFileError: another robot or model version, unknown name, wrong unit, a body no
                mass distribution has, a negative damping, armature or friction, or anything else that
                PhysicalCheck objects to.
        """
        layout = model.parameters
        if self.robot != model.name:
            raise ParameterFileError(
                f"{self.path}: holds parameters of robot '{self.robot}', the model is '{model.name}'"
            )
        if check_hash and self.model_hash != model.hash:
            raise ParameterFileError(
                f"{self.path}: belongs to model {self.model_hash[:12]}, the loaded '{model.name}' is {model.hash[:12]}; "
                "identify again with the present model"
            )
        p = np.array(layout.nominal, float)
        for name, entry in self.parameters.items():
            if name not in layout:
                owner = name.split(".")[0]
                owners = sorted({n.split(".")[0] for n in layout.names})
                alike = [n for n in layout.names if n.split(".")[0] == owner] or owners
                raise ParameterFileError(
                    f"{self.path}: '{model.name}' has no parameter '{name}'; known: {', '.join(alike)}"
                )
            i = layout.index(name)
            if entry.unit != layout.units[i]:
                raise ParameterFileError(f"{self.path}: {name} is in [{entry.unit}], expected [{layout.units[i]}]")
            p[i] = entry.value
        self._check_physical(layout, p)
        if why := PhysicalCheck(model).objection(p):
            raise ParameterFileError(f"{self.path}: {why}; identify again")
        return p

    def open(
        self, source: str | os.PathLike[str], attach: Callable[[RobotModel], RobotModel] | None = None
    ) -> tuple[RobotModel, np.ndarray]:
        """The model with the options that the file's names need, and its physical vector.

        A model without friction loss has no entry for it; one identified with it is loaded so. Values that were
        identified with networks hold with those only: `sim_core.augmentation.open_parameters` attaches them.

        Args:
            source: as for load_model.
            attach: applied to the loaded model; what puts the networks that the file names into the equations.

        Returns:
            (RobotModel, p (np_,)).

        Raises:
            ParameterFileError: as `vector`, or the file names networks and `attach` is missing. ModelError: as load_model.
        """
        from sim_core.multibody.model.load import load_model

        if self.blueprint and attach is None:
            raise ParameterFileError(
                f"{self.path}: its values hold with the networks of {self.blueprint}; "
                "open it with sim_core.augmentation.open_parameters"
            )
        base = load_model(source)
        if self.robot == base.name and self.model_hash != base.hash:
            self.vector(base)  # raises with the sentence about versions
        options = {}
        friction = [n[: -len(".frictionloss")] for n in self.parameters if n.endswith(".frictionloss")]
        if any(f"{joint}.frictionloss" not in base.parameters for joint in friction):
            known = [n[: -len(".frictionloss")] for n in base.parameters.names if n.endswith(".frictionloss")]
            options["friction"] = tuple(j for j in base.joint_names if j in friction + known)
        geometry = {n.split(".pos.")[0] for n in self.parameters if ".pos." in n}
        if any(f"{name}.pos.x" not in base.parameters for name in geometry):
            placed = {n.split(".pos.")[0] for n in base.parameters.names if ".pos." in n}
            options["geometry"] = tuple(n for n in base.body_names + base.frame_names if n in geometry | placed)
        anew = bool(options or self.blueprint)
        model = load_model(source, **options) if options else base
        if self.blueprint and attach is not None:
            model = attach(model)
        return model, self.vector(model, check_hash=not anew)

    def _check_physical(self, layout: PhysicalVector, p: np.ndarray) -> None:
        for body in dict.fromkeys(name.split(".")[0] for name in self.parameters):
            if any(f"{body}.{field}" in self.parameters for field in INERTIA_FIELDS):
                pi = p[layout.inertia_slice(body)]
                # Point masses and nominal bodies without rotational inertia sit on the boundary.
                if pi[0] < 0.0 or not is_physical(pi, tolerance=-1e-9 * max(1.0, abs(pi[0]))):
                    raise ParameterFileError(
                        f"{self.path}: mass, h and I of '{body}' belong to no body of positive density; "
                        "give all ten, as `refit identify` writes them"
                    )
        for name, entry in self.parameters.items():
            if name.endswith((".damping", ".armature", ".frictionloss")) and entry.value < 0.0:
                raise ParameterFileError(f"{self.path}: {name} is {entry.value:g}, expected at least 0")


def _kind(value: object) -> str:
    return "an empty file" if value is None else f"a {type(value).__name__}"


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _entries(path: Path, section: str, values: object) -> dict[str, ParameterValue]:
    if not isinstance(values, dict):
        raise ParameterFileError(f"{path}: {section} must map names to {{value, std, unit}}, found {_kind(values)}")
    entries = {}
    for name, item in values.items():
        form = f"{path}: {section}.{name}"
        if not isinstance(item, dict) or not {"value", "unit"} <= item.keys() <= {"value", "std", "unit"}:
            raise ParameterFileError(f"{form} must be {{value: .., std: .., unit: ..}}, found {item!r}")
        value, std = _number(item["value"]), _number(item.get("std", math.nan))
        if value is None or not math.isfinite(value):
            raise ParameterFileError(f"{form}: value must be a finite number, found {item['value']!r}")
        if std is None or std < 0.0:
            raise ParameterFileError(f"{form}: std must be at least 0, found {item['std']!r}")
        if not isinstance(item["unit"], str):
            raise ParameterFileError(f"{form}: unit must be text, found {item['unit']!r}")
        entries[str(name)] = ParameterValue(value, std, item["unit"])
    return entries
