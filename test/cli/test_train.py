"""`refit train` over a table: networks that learn what the equations lack, and what cannot be used in one line."""

import json

import numpy as np
import pytest

from cli.main import main
from sim_core.augmentation import load_blueprints
from sim_core.augmentation.blueprint_file import BlueprintFileError
from sim_core.multibody import Dynamics, load_model

DT = 0.01
BLUEPRINT = """
blueprints:
  drag:
    outputs: [slider.passive_torque]
    inputs: [slider.velocity]
    network: {hidden: [], biases: [false]}
"""


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Five seconds of a cart-pole whose slider has a damping of 0.5 N s/m that its model lacks."""
    model = load_model("cartpole")
    p = model.parameters.nominal.copy()
    p[model.parameters.index("slider.damping")] = 0.5
    t = DT * np.arange(501)
    u = (4 * np.sin(5 * t[1:]) + 3 * np.sin(11 * t[1:]))[:, None]
    x = Dynamics(model, dt=DT, substeps=round(DT / model.timestep)).rollout(np.r_[0.0, 0.5, 0.0, 0.0], u, p)
    rows = np.c_[t, x, np.r_[0.0, u[:, 0]], np.zeros(501)]
    path = tmp_path_factory.mktemp("table") / "run.csv"
    head = "t,slider.position,hinge.position,slider.velocity,hinge.velocity,slider.effort,hinge.effort"
    np.savetxt(path, rows, delimiter=",", header=head, comments="")
    return path


@pytest.fixture
def blueprint(tmp_path):
    (tmp_path / "drag.yaml").write_text(BLUEPRINT)
    return tmp_path / "drag.yaml"


def test_a_network_learns_the_damping_that_the_model_lacks(table, blueprint, tmp_path, capsys):
    words = ["train", str(table), "--robot", "cartpole", "--blueprint", str(blueprint), "--iterations", "60"]
    assert main([*words, "--horizon", "20", "--out", str(tmp_path / "out"), "--json", str(tmp_path / "out.json")]) == 0
    said = capsys.readouterr().out
    assert "blueprint.yaml" in said and "report.html" in said
    (drag,) = load_blueprints(tmp_path / "out" / "blueprint.yaml", trained=True)
    # One weight: the force for each unit of velocity. The model's own damping is 0.0005.
    assert drag(np.array([[1.0]]))[0, 0] == pytest.approx(-0.4995, rel=0.02)
    document = json.loads((tmp_path / "out.json").read_text())
    assert document["passed"] and document["checks"][0]["value"] < 0.1
    assert "on what was held out" in (tmp_path / "out" / "report.html").read_text()


def test_a_network_that_was_never_trained_is_refused(table, blueprint, capsys):
    with pytest.raises(BlueprintFileError, match="'drag' has no weights; train it first: ./refit train"):
        load_blueprints(blueprint, trained=True)
    for method in ("csvgd", "gauss-newton"):
        words = ["identify", str(table), "--robot", "cartpole", "--free", "hinge.damping", "--method", method]
        assert main([*words, "--blueprint", str(blueprint)]) == 2
        assert "has no weights; train it first" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words, sentence",
    [
        (["--loss", "magic"], "there is no loss 'magic'"),
        (["--length", "0.01"], "expected at least two"),
        (["--robot", ""], "a table holds no robot"),
    ],
)
def test_what_cannot_be_used_is_one_line(table, blueprint, capsys, words, sentence):
    assert main(["train", str(table), "--robot", "cartpole", "--blueprint", str(blueprint), *words]) == 2
    error = capsys.readouterr().err
    assert sentence in error and error.count("\n") == 1


def test_a_blueprint_that_does_not_fit_the_robot_names_what_does(table, blueprint, capsys):
    blueprint.write_text(BLUEPRINT.replace("slider.velocity", "slidr.velocity"))
    assert main(["train", str(table), "--robot", "cartpole", "--blueprint", str(blueprint)]) == 2
    assert "slidr.velocity" in capsys.readouterr().err
    assert main(["train", str(table), "--robot", "cartpole", "--blueprint", "nowhere.yaml"]) == 2
    assert "nowhere.yaml" in capsys.readouterr().err
