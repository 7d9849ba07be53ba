"""Checks and pages of the demonstrations, from made-up stories; options that make no sense."""

from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("rclpy")

from cli.demo import arm, arm_report, cartpole, cartpole_report
from cli.demo.arm_change import arm_change
from cli.demo.command import _payload, _robot, _validate
from cli.demo.film import Pictures
from cli.demo.judged import judged
from cli.demo.recordings import Timing
from cli.demo.story import _arm_film
from cli.errors import CommandError
from config.robot import load_robot
from nodes.control.robot_task import robot_model
from sim_core.multibody import load_model
from sim_core.plant.robot_changes import scenario_of, truth_after

TRUTH = {"hand.payload.mass": 2.0, "hand.payload.com.x": 0.03, "hand.payload.com.y": 0.02, "hand.payload.com.z": 0.08}
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360000002000001e221bc33"
    "0000000049454e44ae426082"
)
PICTURES = Pictures(b"RIFF\0\0\0\0WEBPVP8 ", PNG)


def run(error_after, met=1.0):
    t = np.arange(0, 14, 0.01)
    path = np.stack([np.full_like(t, 0.5), 0.1 * np.sin(t), 0.5 + 0.05 * np.sin(2 * t)], 1)
    error = np.where(t < 5, 2e-4, error_after)
    timing = Timing(62.5, met, 0, np.full(800, 2e-3), np.full(800, 3e-4), 1.0)
    recording = SimpleNamespace(halts=[], accepted=[1, 2], refits=[0] * 53, node=lambda name: {"control_period": 0.016})
    return arm.ArmRun(recording, timing, t, path + error[:, None] * [0, 0, 1], path, error)


def estimates(values):
    return SimpleNamespace(
        parameters=[
            SimpleNamespace(
                name=n,
                unit="kg" if n.endswith("mass") else "m",
                value=v,
                lower=v - 0.01 * abs(v),
                upper=v + 0.01 * abs(v),
                excited=True,
            )
            for n, v in values.items()
        ]
    )


def arm_story(mass=2.01, after=1e-3, met=1.0, relearnt=0.4, robot="panda"):
    found = estimates({**TRUTH, "hand.payload.mass": mass})
    event = {"action": "attach", "frame": "hand", "mass": 2.0, "com": [0.03, 0.02, 0.08]}
    changed = judged(load_model(robot), [event], TRUTH)
    used = [(5.4, found), (8.0, found)]
    return arm.ArmStory(robot, run(4e-3), run(after, met), 5.0, 14.0, TRUTH, used, relearnt, (50, 50), changed)


def changed_story(texts, found, free="*.friction,*.gear,gravity.tilt"):
    """A Panda to which something else happens than a payload; `found`: what the refit says in the end."""
    model = robot_model("panda", free)
    events = scenario_of(texts, model, "hand")
    groups, used = judged(model, events, found), [(4.0, estimates({})), (5.4, estimates(found))]
    relearnt = arm._relearnt(used, 5.0, groups)
    truth = truth_after(events, model)
    return arm.ArmStory("panda", run(4e-3), run(1e-3), 5.0, 14.0, truth, used, relearnt, (50, 50), groups, free)


@pytest.mark.parametrize("carries", [True, False])
def test_a_film_says_what_changed_and_shows_a_ball_only_where_something_is_carried(carries, tmp_path, monkeypatch):
    story = arm_story() if carries else changed_story(["gain:joint4=0.8"], {"joint4.gear": 0.81})
    for each in (story.without, story.with_refit):
        each.recording.t, each.recording.q = each.t, np.zeros((len(each.t), 7))
    monkeypatch.setattr("cli.demo.film.draw", lambda film, folder: film)
    film = _arm_film(story, tmp_path)
    assert film.changed == ("2 kg in the hand" if carries else "the arm has changed")
    assert (list(film.ball), film.ball_body) == (([0.03, 0.02, 0.08], "hand") if carries else ([], ""))
    assert [len(take.measure) for take in film.takes] == 2 * [len(film.t)]


def missed(result):
    return {check.name for check in result.checks if not check.passed}


def test_an_arm_meets_its_targets_or_says_which_it_missed():
    assert missed(arm.check(arm_story(), 0)) == set()
    assert missed(arm.check(arm_story(mass=1.8), 0)) == {
        "payload mass, relative error",
        "payload mass within its 95 % interval",
    }
    assert missed(arm.check(arm_story(after=3e-3), 0)) == {"tracking RMSE after the change, with refit over without"}
    assert missed(arm.check(arm_story(met=0.98), 0)) == {"deadlines met, with refit"}
    assert missed(arm.check(arm_story(relearnt=np.inf), 0)) == {"re-learnt after"}


@pytest.mark.parametrize(
    "robot, title, film",
    [("panda", "Panda", PICTURES), ("dxl_arm", "Dynamixel arm", "No picture: nothing can draw here.")],
)
def test_arm_page(robot, title, film):
    story = arm_story(mass=1.8, robot=robot)
    page = arm_report.report(story, arm.check(story, 3), film).html()
    for words in (
        f"{title} with an unknown payload",
        "Seed 3",
        "Missed: payload mass, relative error",
        "hand.payload.com.z",
        f"robot:={robot} params_file:=",
    ):
        assert words in page
    shown = ("data:image/webp;base64,", "data:image/png;base64,") if isinstance(film, Pictures) else (film,)
    assert all(each in page for each in shown)


def cartpole_story(change=None):
    from sim_core.multibody import load_model

    model = load_model("double_cartpole")
    truth = cartpole.base_parameters(model, model.parameters.nominal)
    x = np.zeros((cartpole.STEPS + 1, 6))
    episode = cartpole.EpisodeTrace(
        cartpole.PERIOD * np.arange(len(x)), x, np.zeros((cartpole.STEPS, 3)), np.full(cartpole.STEPS, 0.8)
    )
    stuck = cartpole.EpisodeTrace(episode.t, x + 3.0, episode.U, np.full(cartpole.STEPS, 0.1))
    start = cartpole.BasePoint(0, dict.fromkeys(truth, 2.0), dict.fromkeys(truth, np.nan))
    learnt = cartpole.BasePoint(50, truth, dict.fromkeys(truth, 1e-3))
    begin = cartpole.BEFORE * cartpole.STEPS * cartpole.PERIOD
    sets = [
        SimpleNamespace(
            accepted=True,
            window_start=0.0,
            window_end=1.0,
            loss_before=1e4,
            loss_after=1.0,
            rank=8,
            fit_time=0.02,
            message="ok",
        ),
        SimpleNamespace(
            accepted=True,
            window_start=begin,
            window_end=begin + 0.2,
            loss_before=10.0,
            loss_after=1.0,
            rank=8,
            fit_time=0.02,
            message="ok",
        ),
    ]
    recording = SimpleNamespace(parameters=sets, accepted=sets, halts=[])
    timing = Timing(50.0, 1.0, 0, np.full(99, 2e-3), np.full(99, 1e-3), 3.0)
    truths = (
        truth,
        truth
        if change is None
        else cartpole.base_parameters(model, cartpole.changed_truth(load_robot("double_cartpole"), model, change)),
    )
    plain = change is None
    return cartpole.CartpoleStory(
        "double_cartpole",
        model,
        "robust",
        recording,
        timing,
        [episode] * 10,
        [episode] * 10,
        [stuck] * 7,
        change,
        [start, learnt],
        truths,
        (12, 12),
        [0.8] * 3 if plain else [],
        {0: 10.0, 1: 0.1, 3: 0.01} if plain else {},
    )


@pytest.mark.parametrize("change", [None, ("pole_mass", 10.0), ("gain", 0.6)])
def test_cartpole_page(change):
    story = cartpole_story(change)
    result = cartpole.check(story, 1)
    assert missed(result) == set()
    page = cartpole_report.report(story, result, PICTURES).html()
    assert "Base parameters" in page and ("nobody tells the controller" in page) == (change is not None)


@pytest.mark.parametrize(
    "arguments, words",
    [
        (
            ("pandas", "robust", None, 10),
            "expected one of cartpole, double_cartpole, dxl_arm, panda, panda_bucket, panda_poker, panda_stethoscope, ur5e_scoop, or",
        ),
        (("quadruped", "robust", None, 10), "demo is missing in .*quadruped/robot.yaml"),
        (("panda", "rubost", None, 10), "expected one of robust"),
        (("panda", "robust", "pole_mass=10", 10), "--change is for --robot double_cartpole"),
        (("double_cartpole", "robust", "pole_mass=x", 10), "expected pole_mass=FACTOR"),
        (("double_cartpole", "robust", "pole_mass=500", 10), "factor 0.05 to 50"),
        (("double_cartpole", "robust", "gain=0.6", 4), "--episodes 4 is too few"),
    ],
)
def test_options_that_make_no_sense(arguments, words):
    with pytest.raises(CommandError, match=words) as refused:
        _validate(_robot(arguments[0]), *arguments[1:])
    assert refused.value.exit_code == 2


@pytest.mark.parametrize(
    "robot, payload, words",
    [
        ("dxl_arm", 2.0, "dxl_arm takes 0.05 to 0.35 kg"),
        ("panda", 0.05, "panda takes 0.1 to 4 kg"),
        ("cartpole", 0.2, "for arms .dxl_arm, panda.: cartpole has no hand"),
    ],
)
def test_payloads_that_no_arm_carries(robot, payload, words):
    with pytest.raises(CommandError, match=words):
        _payload(_robot(robot), payload)


def test_what_is_judged_is_what_changed_and_as_a_share_of_it():
    story = changed_story(["gain:joint4=0.8"], {"joint4.gear": 0.81, "joint1.gear": 0.5, "hand.payload.mass": 0.4})
    (motor,) = story.judged
    assert motor.called == "motor strength of joint4" and motor.said == "motor strength of joint4 1 becomes 0.8"
    assert motor.error(story.final.parameters) == pytest.approx(0.05)  # 0.01 of the 0.2 that were lost
    assert story.relearnt == pytest.approx(0.4) and missed(arm.check(story, 0)) == {
        "motor strength of joint4 within its 95 % interval"  # 0.8 is below 0.81 - 0.0081
    }
    page = arm_report.report(story, arm.check(story, 0), PICTURES).html()
    assert "Panda after an unknown change" in page and "neither where" in page and "red ball" not in page

    far = changed_story(["gain:joint4=0.8"], {"joint4.gear": 0.9})
    assert far.relearnt == np.inf and "motor strength of joint4, error over what changed" in missed(arm.check(far, 0))


def test_several_joints_are_judged_by_the_worst_and_by_how_many_intervals_hold():
    found = {f"joint{k}.frictionloss": 1.505 for k in range(1, 8)}
    good = changed_story(["friction:*=1.5", "tilt:3@y"], {**found, "gravity.tilt.x": 0.0, "gravity.tilt.y": 0.0524})
    friction, tilt = good.judged
    assert friction.called == "friction of 7 joints" and friction.said == "friction of 7 joints becomes 1.5 N m"
    assert tilt.said == "tilt of the base becomes x 0, y 3 degrees"
    assert missed(arm.check(good, 0)) == set()
    bad = changed_story(["friction:*=1.5"], {**found, "joint2.frictionloss": 1.0, "joint3.frictionloss": 0.9})
    assert bad.judged[0].error(bad.final.parameters) == pytest.approx(0.4)
    assert missed(arm.check(bad, 0)) == {
        "friction of 7 joints, worst error over what changed",
        "friction of 7 joints, share within 95 % intervals",
        "re-learnt after",
    }
    page = arm_report.report(good, arm.check(good, 0), "no film").html()
    assert "friction of 7 joints becomes 1.5 N m." in page


def test_what_the_refit_may_not_change_is_not_judged():
    story = changed_story(["gain:joint4=0.8"], {"hand.payload.mass": 0.4}, free="")
    result = arm.check(story, 0)
    assert story.judged == [] and not any("motor" in check.name or "learnt" in check.name for check in result.checks)
    assert "cannot be learnt" in arm_report.report(story, result, PICTURES).html()


@pytest.mark.parametrize(
    "changes, payload, free, words",
    [
        (["payload"], None, None, "--change payload: expected payload:MASS or"),
        (["pole_mass=10"], None, None, "expected one of payload:MASS"),
        (["payload:1.5@0.1,0,0"], 2.0, None, "both give the mass"),
        (["payload:9"], None, None, "--change payload:9: panda takes 0.1 to 4 kg"),
        (["gain:joint8=0.8"], None, None, "no driven joint 'joint8'.*There are: joint1"),
        (["gain:joint4=0.8"], None, "joint4.gaer", "--free joint4.gaer: .*did you mean 'joint4.gear'"),
    ],
)
def test_changes_of_an_arm_that_make_no_sense(changes, payload, free, words):
    with pytest.raises(CommandError, match=words) as refused:
        arm_change("panda", changes, payload, free)
    assert refused.value.exit_code == 2


def test_changes_of_an_arm_that_do():
    usual = arm_change("panda", [], None, None)
    assert usual.free == "" and usual.scenario(5.0) == [
        dict(time=5.0, action="attach", frame="hand", name="payload", mass=2.0, com=[0.03, 0.02, 0.08])
    ]
    beside = arm_change("panda", ["payload:1.5@0.06,-.02,0.1"], None, None)
    assert beside.events[0]["mass"] == 1.5 and beside.events[0]["com"] == [0.06, -0.02, 0.1]
    assert len(arm_change("panda", ["gain:joint4=0.8"], None, None).events) == 1  # no payload unless it is asked for
    both = arm_change("panda", ["gain:joint4=0.8"], 3.0, None)
    assert [e["action"] for e in both.events] == ["attach", "actuator_gain"] and both.free == "*.gear"
    assert arm_change("panda", ["gain:joint4=0.8"], None, "none").free == ""
    assert arm_change("panda", ["gain:joint4=0.8"], None, "*.damping").free == "*.damping"


def test_options_that_do():
    panda, dxl_arm, cartpole, double_cartpole = map(_robot, ("panda", "dxl_arm", "cartpole", "double_cartpole"))
    assert _payload(panda, None) is None and _payload(dxl_arm, 0.15) == 0.15
    assert _payload(cartpole, None) is None

    assert _validate(panda, "robust", None, 3) is None
    assert _validate(double_cartpole, "robust", "pole_mass=10", 10) == ("pole_mass", 10.0)
