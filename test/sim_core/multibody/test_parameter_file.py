"""Parameter files: round trip, what is refused and with which sentence."""

from dataclasses import replace

import numpy as np
import pytest
import yaml

from sim_core.augmentation import Blueprint, Network, attaching, augment, open_parameters, save_parameters
from sim_core.multibody import load_model
from sim_core.multibody.model.parameter_file import ParameterFile, ParameterFileError, ParameterValue


@pytest.fixture(scope="module")
def model():
    return load_model("panda")


def heavier(model):
    p = model.parameters.nominal.copy()
    where = model.parameters.inertia_slice("hand")
    p[where] *= 2.0
    p[model.parameters.index("joint4.damping")] = 1.7
    return p


def save(model, tmp_path, **changes):
    """A sound file with top-level keys or single entries replaced."""
    p = heavier(model)
    file = ParameterFile.from_vector(model, p, 1e-4 * np.eye(len(p)), sensor={"delay": ParameterValue(3e-3, 1e-5, "s")})
    path = file.save(tmp_path / "parameters.yaml")
    document = yaml.safe_load(path.read_text())
    for key, value in changes.items():
        if value is None:
            del document[key]
        elif isinstance(value, dict) and key in document:
            document[key].update(value)
        else:
            document[key] = value
    path.write_text(yaml.safe_dump(document))
    return path


def test_round_trip_keeps_every_digit(model, tmp_path):
    file = ParameterFile.load(save(model, tmp_path))
    np.testing.assert_array_equal(file.vector(model), heavier(model))
    changed = {n for n, a, b in zip(model.parameters.names, heavier(model), model.parameters.nominal) if a != b}
    assert set(file.parameters) == changed and "hand.I.zz" in changed and "joint4.damping" in changed
    assert file.parameters["hand.mass"] == ParameterValue(1.52, 0.01, "kg")
    assert file.sensor["delay"].value == 3e-3


def test_what_is_not_named_keeps_the_models_value(model, tmp_path):
    path = tmp_path / "p.yaml"
    entry = {"value": 2.5, "unit": "N m s/rad"}
    path.write_text(
        yaml.safe_dump({"robot": "panda", "model_hash": model.hash, "parameters": {"joint1.damping": entry}})
    )
    file = ParameterFile.load(path)
    assert np.isnan(file.parameters["joint1.damping"].std)
    assert np.sum(file.vector(model) != model.parameters.nominal) == 1


@pytest.mark.parametrize(
    "changes, message",
    [
        (dict(robot=None), "key 'robot' is missing"),
        (dict(surprise=1), "unknown key 'surprise'"),
        (dict(model_hash=123), "model_hash must be text"),
        (dict(parameters=["hand.mass"]), "must map names"),
        (dict(parameters={"hand.mass": 2.0}), "hand.mass must be {value"),
        (dict(parameters={"hand.mass": {"value": "heavy", "unit": "kg"}}), "value must be a finite number"),
        (dict(parameters={"hand.mass": {"value": float("nan"), "unit": "kg"}}), "value must be a finite number"),
        (dict(parameters={"hand.mass": {"value": 1.0, "std": -1, "unit": "kg"}}), "std must be at least 0"),
        (dict(blueprint=["half.yaml"]), "blueprint must be the path of a file"),
        (dict(blueprint="half.yaml"), "its blueprint .*half.yaml is missing"),
        (dict(sensor={"gain": {"value": 1.0, "unit": "-"}}), "known: delay"),
    ],
)
def test_malformed_files_are_refused_in_one_line(model, tmp_path, changes, message):
    with pytest.raises(ParameterFileError, match=message) as error:
        ParameterFile.load(save(model, tmp_path, **changes))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "changes, message",
    [
        (dict(robot="ur5"), "robot 'ur5', the model is 'panda'"),
        (dict(model_hash="0" * 64), "belongs to model 000000000000"),
        (
            dict(parameters={"hand.weight": {"value": 1.0, "unit": "kg"}}),
            "no parameter 'hand.weight'; known: hand.mass",
        ),
        (dict(parameters={"hand.mass": {"value": 1.0, "unit": "g"}}), r"in \[g\], expected \[kg\]"),
        (dict(parameters={"hand.mass": {"value": 0.1, "unit": "kg"}}), "no body of positive density"),
        (dict(parameters={"joint4.damping": {"value": -0.1, "unit": "N m s/rad"}}), "expected at least 0"),
    ],
)
def test_files_that_do_not_fit_the_model_are_refused(model, tmp_path, changes, message):
    with pytest.raises(ParameterFileError, match=message):
        ParameterFile.load(save(model, tmp_path, **changes)).vector(model)


def test_a_missing_file_and_one_that_is_no_yaml(tmp_path):
    with pytest.raises(ParameterFileError, match="cannot be read"):
        ParameterFile.load(tmp_path / "none.yaml")
    (tmp_path / "bad.yaml").write_text("robot: [panda\nx: 1")
    with pytest.raises(ParameterFileError, match="is not YAML near line"):
        ParameterFile.load(tmp_path / "bad.yaml")
    (tmp_path / "empty.yaml").write_text("")
    with pytest.raises(ParameterFileError, match="found an empty file"):
        ParameterFile.load(tmp_path / "empty.yaml")


def test_open_loads_the_model_with_the_friction_that_was_identified(model, tmp_path):
    with_friction = load_model("panda", friction=("joint2",))
    p = with_friction.parameters.values({"joint2.frictionloss": 0.4})
    file = ParameterFile.from_vector(with_friction, p, np.zeros((len(p), len(p))), model_hash=model.hash)
    loaded, vector = ParameterFile.load(file.save(tmp_path / "f.yaml")).open("panda")
    assert vector[loaded.parameters.index("joint2.frictionloss")] == 0.4
    with pytest.raises(ParameterFileError, match="identify again"):
        ParameterFile("panda", "0" * 64, file.parameters).open("panda")


def test_open_puts_the_networks_that_the_file_names_into_the_equations(model, tmp_path):
    half = Blueprint("half", "joint2.passive_torque", "joint2.velocity", Network((), biases=False), weights=[-0.25])
    hybrid = augment(model, half)
    p = hybrid.parameters.values({"joint2.damping": 0.4})
    file = ParameterFile.from_vector(hybrid, p, np.zeros((len(p), len(p))), ["joint2.damping"], model_hash=model.hash)
    save_parameters(tmp_path / "run" / "p.yaml", file, [half])
    (tmp_path / "run").rename(tmp_path / "elsewhere")  # the name is relative to the file
    loaded = ParameterFile.load(tmp_path / "elsewhere" / "p.yaml")
    again, vector = open_parameters(tmp_path / "elsewhere" / "p.yaml", "panda")
    np.testing.assert_array_equal(vector, p)
    assert again.hash == hybrid.hash and again.parameters.names == hybrid.parameters.names
    assert len(loaded.vector(model)) == model.np_  # who has no use for networks reads the physics alone
    with pytest.raises(ParameterFileError, match="identify again"):
        replace(loaded, model_hash="0" * 64).open("panda", attaching(loaded.networks))
    with pytest.raises(ParameterFileError, match="hold with the networks of blueprint.yaml"):
        loaded.open("panda")
