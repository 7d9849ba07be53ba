"""The operator who does tasks by a script: what his hands do, what he feels and scans, and whole tasks through link, stack and contacts."""

import numpy as np
import pytest

from experiments.problems.rehearsed import Attempt, RehearsedTeleoperation, attempted
from experiments.problems.scripted_operator import ARM, ScriptedOperator
from experiments.problems.wrist_scan import WristScan
from sim_core.plant.rehearsal.tasks import rehearse
from sim_core.telepresence.clutch import OPENXR, Pose
from sim_core.telepresence.texture.height_map import ScanError


def waiting(me):
    yield from me.wait(1e9)


@pytest.mark.parametrize("task", ["switch", "passage", "drill"])
def test_a_task_is_done_through_the_whole_stack(task):
    outcome = attempted(Attempt(task, 11))
    assert outcome.progress.done, outcome.progress
    assert not outcome.stops and outcome.refused == 0 and outcome.speed < 0.203


def test_an_operator_who_does_nothing_gets_nothing_done():
    run = RehearsedTeleoperation(ScriptedOperator(waiting, 0), rehearse("drill", 0)).until(1.5)
    assert run.rehearsal.progress.steps_done == 0 and not run.rehearsal.progress.failed
    assert run.avatar.session.state.name == "IDLE"


def test_hands_that_reach_their_limit_are_taken_back_with_the_clutch_open():
    def far(me):
        home = me.effector
        while True:
            me.goal = Pose(home.position + (0.0, 0.0, 5.0), home.rotation)  # nobody gets there
            yield

    operator, places, clutches = ScriptedOperator(far, 0), [], []
    run = RehearsedTeleoperation(operator, rehearse("switch", 0))
    act = operator.act

    def watched(now, seen):
        devices, buttons = act(now, seen)
        places.append(OPENXR @ devices.hands[0].position)
        clutches.append(devices.clutch[0])
        return devices, buttons

    operator.act = watched
    run.until(6.0)
    away = np.linalg.norm(np.array(places) - [0.0, -0.2, 1.0], axis=1)
    closed = np.array(clutches)
    assert away.max() < ARM + 0.02 and closed.mean() > 0.5
    jumps = np.linalg.norm(np.diff(places, axis=0), axis=1) > 0.05
    assert jumps.any() and not closed[1:][jumps].any()  # he takes his hand back only while it leads nothing


def test_the_camera_at_the_wrist_tells_a_rough_rock_from_a_smooth_one_and_refuses_what_it_does_not_see():
    rehearsal = rehearse("rocks", 3)
    run = RehearsedTeleoperation(ScriptedOperator(waiting, 0), rehearsal)
    data, faces = run.plant.world.data, rehearsal.task.faces
    camera = data.camera("right_wrist")
    found = {}
    for name, face in faces.items():
        scan = WristScan({name: face}, seed=1)
        body = data.body(name)
        # a camera that looks along +x at the face, a quarter of a metre before it
        camera.xpos[:] = body.xpos + np.array([-0.03 - 0.25, 0.0, 0.0])
        camera.xmat[:] = np.array([[0.0, 0.0, -1.0], [-1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]).ravel()
        while not scan.complete:
            scan.look(data)
        found[name] = scan.texture().roughness
        assert found[name] == pytest.approx(face.surface.roughness, rel=0.15, abs=1.5e-4)
    rough = max(found, key=found.get)
    assert rough == max(faces, key=lambda name: faces[name].surface.roughness)
    with pytest.raises(ScanError, match="no picture"):
        WristScan(faces).texture()
    blind = WristScan(faces)
    camera.xpos[1] += 3.0
    while not blind.complete:
        blind.look(data)
    with pytest.raises(ScanError):
        blind.texture()
