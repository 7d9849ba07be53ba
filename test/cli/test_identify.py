"""`refit identify` over real bags: what it writes, and one line with exit code 2 for every bad bag."""

import json
import shutil
from types import SimpleNamespace

import numpy as np
import pytest

from cli.main import main
from experiments.adaptive_mpc.identify_panda import RunWriter
from recording import BagWriter
from sim_core.augmentation import Blueprint, Network, open_parameters, save_blueprints
from sim_core.multibody import load_model
from sim_core.multibody.model.parameter_file import ParameterFile
from sim_core.plant import MujocoPlant

FREE = ["--free", "*.damping", "--free", "sensor.delay", "--starts", "2"]


@pytest.fixture(scope="module")
def states():
    """Five seconds of a cart-pole whose slider has twelve times its damping, 4 ms late."""
    return drive(5.0)


def drive(seconds, scenario=()):
    plant = MujocoPlant(
        "cartpole",
        parameters={"slider.damping": 0.5},
        sensor_delay=0.004,
        position_noise=2e-4,
        velocity_noise=2e-3,
        scenario=scenario,
    )
    rows = []
    while plant.t < seconds:
        rows.append(
            SimpleNamespace(
                name=plant.name,
                t=plant.t,
                q=plant.q,
                v=plant.v,
                effort=plant.effort,
                joints=plant.joints,
                mjcf=plant.mjcf,
            )
        )
        plant.step([4.0 * np.sin(5 * plant.t) + 3.0 * np.sin(11 * plant.t) - 2.0 * plant.q[0]])
    return rows


def write(path, states, leave_out=(), robot=None):
    with BagWriter(path, flush_period=60.0) as bag:
        first = states[0]
        nominal = load_model("cartpole")
        if leave_out or robot:
            writer = RunWriter.__new__(RunWriter)
            RunWriter.__init__(
                writer, _Filter(bag, leave_out), SimpleNamespace(name=robot or first.name, mjcf=first.mjcf), nominal
            )
        else:
            writer = RunWriter(bag, first, nominal)
        for k, state in enumerate(states):
            writer.state(state, received=0.01 * k)
            if k % 10 == 9:  # many chunks, as in a long recording, and the same ones on every machine
                bag.flush()
    return path


class _Filter:
    """A bag writer that leaves some topics out."""

    def __init__(self, bag, leave_out):
        self._bag, self._leave_out = bag, leave_out

    def add_topic(self, topic, kind):
        if topic not in self._leave_out:
            self._bag.add_topic(topic, kind)

    def write_message(self, topic, stamp, message):
        if topic not in self._leave_out:
            self._bag.write_message(topic, stamp, message)


@pytest.fixture(scope="module")
def bag(states, tmp_path_factory):
    return write(tmp_path_factory.mktemp("bags") / "good", states)


def test_a_bag_alone_gives_report_checks_and_a_file_that_plant_and_model_load(bag, tmp_path, capsys):
    out, checks = tmp_path / "found", tmp_path / "out.json"
    assert main(["identify", str(bag), *FREE, "--out", str(out), "--json", str(checks)]) == 0
    assert {p.name for p in out.iterdir()} == {
        "report.html",
        "result.json",
        "parameters.yaml",
        "posterior.npz",
        "run.json",
    }
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")]
    page = (out / "report.html").read_text()
    assert all(
        title in page
        for title in ("Parameters", "Prediction of the held-out part", "Residuals", "Conditioning", "Starts")
    )
    document = json.loads(checks.read_text())
    assert document["passed"] and document["details"]["changes"] == []
    found = {row["name"]: row for row in document["details"]["parameters"]}
    assert found["slider.damping"]["lower"] <= 0.5 <= found["slider.damping"]["upper"]
    assert found["sensor.delay"]["lower"] <= 0.004 <= found["sensor.delay"]["upper"]
    file = ParameterFile.load(out / "parameters.yaml")
    model = load_model("cartpole")
    value = file.vector(model)[model.parameters.index("slider.damping")]
    assert value == pytest.approx(0.5, rel=0.05) and file.sensor["delay"].unit == "s"
    plant = MujocoPlant("cartpole", params_file=str(out / "parameters.yaml"))
    assert plant.world.model.dof_damping[0] == pytest.approx(value)
    assert "slider.damping" in capsys.readouterr().out


def test_physics_is_identified_around_the_networks_of_a_blueprint(bag, tmp_path, capsys):
    """The network says half of the slider's damping of 0.5; the coefficient is the other half."""
    net = Blueprint("half", "slider.passive_torque", "slider.velocity", Network((), biases=False), weights=[-0.25])
    path = save_blueprints(tmp_path / "half.yaml", [net])
    arguments = ["identify", str(bag), *FREE, "--changes", "off"]
    assert main([*arguments, "--blueprint", str(path), "--out", str(tmp_path / "run")]) == 0
    file = ParameterFile.load(tmp_path / "run" / "parameters.yaml")
    assert file.parameters["slider.damping"].value == pytest.approx(0.25, abs=0.02)
    assert not any(name.startswith("augmentation") for name in file.parameters)
    model, p = open_parameters(tmp_path / "run" / "parameters.yaml", "cartpole")  # the networks lie beside it
    assert p[-1] == -0.25 and model.parameters.names[-1] == "augmentation.half.w0[0,0]"
    for method in ("gauss-newton", "svgd"):
        assert (
            main(
                [
                    "identify",
                    str(bag),
                    "--free",
                    "*.damping",
                    "--method",
                    method,
                    "--blueprint",
                    str(tmp_path / "none.yaml"),
                ]
            )
            == 2
        )
        assert "none.yaml: cannot be read" in capsys.readouterr().err


def test_a_robot_that_changed_is_reported_before_and_after_and_written_as_it_is_now(tmp_path, capsys):
    bag, out = tmp_path / "bag", tmp_path / "found"
    write(bag, drive(6.0, [{"time": 2.7, "action": "set", "target": "slider.damping", "value": 0.15}]))
    assert main(["identify", str(bag), *FREE, "--out", str(out)]) == 0
    details = json.loads((out / "result.json").read_text())["details"]
    (change,) = details["changes"]
    assert change["lower"] <= 2.7 <= change["upper"] and change["time"] == pytest.approx(2.7, abs=0.03)
    assert change["changed"] == ["slider.damping"]
    assert [s["ended"] for s in details["stretches"]] == ["converged"] * 2
    for stretch, truth in zip(details["stretches"], (0.5, 0.15)):
        found = {row["name"]: row for row in stretch["parameters"]}
        assert found["slider.damping"]["lower"] <= truth <= found["slider.damping"]["upper"]
        assert found["sensor.delay"]["lower"] <= 0.004 <= found["sensor.delay"]["upper"]
    assert details["parameters"] == details["stretches"][1]["parameters"]
    model = load_model("cartpole")
    written = ParameterFile.load(out / "parameters.yaml").vector(model)[model.parameters.index("slider.damping")]
    assert written == pytest.approx(0.15, rel=0.1)
    assert "Changes of the robot" in (out / "report.html").read_text()
    assert "The robot changed at 2.7" in capsys.readouterr().out.replace("\n", " ")


def test_changes_off_fits_one_set_to_all(tmp_path):
    bag, out = tmp_path / "bag", tmp_path / "found"
    write(bag, drive(4.0, [{"time": 2.0, "action": "set", "target": "slider.damping", "value": 0.15}]))
    main(["identify", str(bag), *FREE, "--changes", "off", "--out", str(out)])
    details = json.loads((out / "result.json").read_text())["details"]
    assert details["changes"] == [] and len(details["stretches"]) == 1
    assert "Changes of the robot" not in (out / "report.html").read_text()


def truncated(bag, tmp_path, states):
    path = tmp_path / "cut"
    shutil.copytree(bag, path)
    file = next(path.glob("*.mcap"))
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])
    return path


def nan(bag, tmp_path, states):
    copies = [SimpleNamespace(**vars(s)) for s in states]
    copies[33].v = copies[33].v * np.nan
    return write(tmp_path / "nan", copies)


def jump(bag, tmp_path, states):
    copies = [SimpleNamespace(**vars(s)) for s in states]
    for s in copies[300:]:
        s.t -= 2.0
    return write(tmp_path / "jump", copies)


def renamed(bag, tmp_path, states):
    copies = [SimpleNamespace(**vars(s)) for s in states]
    for s in copies:
        s.joints = ["slider", "elbow"]
    return write(tmp_path / "joint", copies)


BAD = {
    "nothing there": (lambda b, p, s: p / "none", [], "No bag at"),
    "no bag": (lambda b, p, s: p, [], "readable bag|holds no"),
    "truncated": (truncated, [], "was cut off.*--allow-truncated"),
    "missing joint states": (lambda b, p, s: write(p / "t", s[:5], ["/run_info"]), [], "lacks run_info"),
    "missing description": (
        lambda b, p, s: write(p / "d", s[:5], ["/robot_description"]),
        [],
        "lacks robot_description",
    ),
    "wrong robot by option": (lambda b, p, s: b, ["--robot", "panda"], "'cartpole', expected 'panda'"),
    "missing joint": (renamed, [], "is missing in message 0"),
    "NaN": (nan, [], "velocity of .* is not finite at 0.330 s"),
    "time jump": (jump, [], "time jumps back"),
    "unknown parameter": (lambda b, p, s: b, ["--free", "tail.damping"], "no joint matches 'tail'"),
    "nothing in the range": (lambda b, p, s: b, ["--from", "60"], "joint states between"),
    "too short": (lambda b, p, s: write(p / "short", s[:4]), [], "only 0 % of the samples"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_bag_ends_with_one_line_exit_2_and_nothing_written(case, bag, states, tmp_path, capsys):
    import re

    make, options, message = BAD[case]
    path = make(bag, tmp_path, states)
    out = tmp_path / "out"
    assert main(["identify", str(path), *options, "--out", str(out)]) == 2
    captured = capsys.readouterr()
    assert re.search(message, captured.err), captured.err
    assert captured.err.count("\n") == 1
    assert not out.exists() and not [p for p in tmp_path.iterdir() if p.name.startswith(".identify")]


def test_the_readable_part_of_a_truncated_bag_can_be_used(bag, states, tmp_path):
    path = truncated(bag, tmp_path, states)
    assert main(["identify", str(path), *FREE, "--allow-truncated", "--out", str(tmp_path / "out")]) == 0
    assert "was cut off" in (tmp_path / "out" / "report.html").read_text()


def test_an_existing_folder_is_not_touched(bag, tmp_path, capsys):
    assert main(["identify", str(bag), "--out", str(tmp_path)]) == 2
    assert "exists already" in capsys.readouterr().err


def test_particles_of_the_posterior_from_a_bag_and_from_a_table(bag, states, tmp_path, capsys):
    import csv

    from sim_core.inference.posterior.particle_posterior import ParticlePosterior

    with open(tmp_path / "run.csv", "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(
            ["t", *(f"{joint}.{what}" for what in ("position", "velocity", "effort") for joint in states[0].joints)]
        )
        table.writerows([s.t, *s.q, *s.v, *s.effort] for s in states)
    options = [
        "--method",
        "svgd",
        "--limits",
        "{slider.damping: [0, 1]}",
        "--particles",
        "16",
        "--iterations",
        "60",
        "--robot",
        "cartpole",
    ]
    found = []
    for source in (bag, tmp_path / "run.csv"):
        out = tmp_path / f"found-{len(found)}"
        assert main(["identify", str(source), *options, "--out", str(out)]) == 0
        assert {p.name for p in out.iterdir()} == {
            "report.html",
            "result.json",
            "parameters.yaml",
            "posterior.npz",
            "run.json",
        }
        found.append(ParticlePosterior.load(out / "posterior.npz"))
        assert "slider.damping" in capsys.readouterr().out
    np.testing.assert_allclose(found[0].values, found[1].values, rtol=1e-6)
    # The bag is 4 ms late, which particles know nothing of.
    assert 0.4 < found[0].mean[0] < 0.6
    assert ParameterFile.load(out / "parameters.yaml").vector(load_model("cartpole")) is not None


def test_options_of_particles_that_cannot_be_used_are_one_line(bag, tmp_path, capsys):
    for options, sentence in [
        (["--method", "magic"], "no method 'magic'"),
        (["--limits", "x", "--method", "svgd"], "limits"),
        (["--method", "svgd", "--cluster", "moon"], "no place to compute"),
    ]:
        assert main(["identify", str(bag), *options]) == 2
        error = capsys.readouterr().err
        assert sentence in error and error.count("\n") == 1
