"""Blueprints as files: what is saved is loaded, and a sentence for each way a file can be wrong."""

import numpy as np
import pytest
import yaml
from hybrids import DOUBLE_PENDULUM, blueprint

from sim_core.augmentation import (
    Blueprint,
    BlueprintFileError,
    Network,
    attached,
    augment,
    load_blueprints,
    save_blueprints,
)
from sim_core.multibody import load_model


def test_what_is_saved_is_loaded(tmp_path, pendulum, rng):
    b = blueprint(
        "drag", (6, 4), "replacement", input_offset=[0, 0, 1, 2], input_scale=[1, 2, 3, 4], output_scale=[0.5, 2]
    )
    b = b.with_weights(rng.normal(size=b.n_weights))
    network = Network((2,), "sin", biases=(False, True), weight_bound=0.1)
    second = Blueprint("second", "joint1.actuator_torque", "joint1.control", network)
    path = save_blueprints(tmp_path / "deep" / "drag.yaml", [b, second])
    again = load_blueprints(path)
    assert [x.name for x in again] == ["drag", "second"]
    for name in ("outputs", "inputs", "mode", "network"):
        assert getattr(again[0], name) == getattr(b, name)
    for name in ("weights", "input_offset", "input_scale", "output_scale"):
        np.testing.assert_array_equal(getattr(again[0], name), getattr(b, name))
    assert again[1].network.weight_bound == 0.1 and again[1].network.biases == (False, True)
    hybrid = augment(load_model(DOUBLE_PENDULUM), path)
    assert hybrid.hash == augment(pendulum, again).hash
    np.testing.assert_array_equal(attached(hybrid)[0].weights, b.weights)


def test_a_file_by_hand_needs_no_weights(tmp_path):
    file = tmp_path / "start.yaml"
    file.write_text(
        "blueprints:\n  f:\n    outputs: [joint1.passive_torque]\n    inputs: [joint1.velocity]\n    network: {hidden: [3]}\n"
    )
    (found,) = load_blueprints(file)
    assert found.n_weights == 10 and found.mode == "residual"


def damage(change):
    def apply(path):
        document = yaml.safe_load(path.read_text())
        change(document)
        path.write_text(yaml.safe_dump(document))

    return apply


@pytest.mark.parametrize(
    "spoil, sentence",
    [
        (lambda path: path.unlink(), "cannot be read"),
        (lambda path: path.write_text("a: [1"), "is not YAML near line"),
        (lambda path: path.write_text("- 1"), "expected the keys 'blueprints'"),
        (lambda path: path.with_suffix(".safetensors").unlink(), "weights net.safetensors cannot be read"),
        (lambda path: path.with_suffix(".safetensors").write_bytes(b"x" * 40), "are damaged"),
        (damage(lambda d: d["blueprints"]["net"].pop("inputs")), "must have outputs and inputs"),
        (damage(lambda d: d["blueprints"]["net"].update(speed=1)), "found .*speed"),
        (damage(lambda d: d["blueprints"]["net"]["network"].update(activation="gelu")), "No activation 'gelu'"),
        (damage(lambda d: d["blueprints"]["net"]["network"].update(hidden=[7])), "its network needs"),
        (damage(lambda d: d["blueprints"]["net"]["network"].update(depth=3)), "depth"),
    ],
)
def test_a_spoilt_file_says_so_in_a_sentence(tmp_path, spoil, sentence):
    path = save_blueprints(tmp_path / "net.yaml", [blueprint()])
    spoil(path)
    with pytest.raises(BlueprintFileError, match=sentence) as caught:
        load_blueprints(path)
    assert "\n" not in str(caught.value) and str(path) in str(caught.value)
