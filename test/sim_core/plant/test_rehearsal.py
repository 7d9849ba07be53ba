"""Tasks before a simulated robot: their scenery beside everything else that a plant does, and their judges by worlds made by hand."""

import mujoco
import numpy as np
import pytest

from sim_core.plant import MujocoPlant, PlantError
from sim_core.plant.errors import EntityError
from sim_core.plant.rehearsal.rocks import NAMES as STONES
from sim_core.plant.rehearsal.table import HEIGHT
from sim_core.plant.rehearsal.tasks import TASKS, rehearse
from sim_core.telepresence.competition import POINTS, Rehearsed, points, score


def plant_of(task, seed=0, **options):
    return MujocoPlant("avatar", tick=0.002, stop_state="hold", rehearsal=rehearse(task, seed), **options)


def run(plant, seconds):
    for _ in range(round(seconds / plant.tick_period)):
        plant.tick()
    return plant.rehearsal.progress


def put(plant, body, place, quaternion=(1, 0, 0, 0)):
    plant.set_entity_state(body, position=place, quaternion=quaternion, linear=np.zeros(3), angular=np.zeros(3))


def place(plant, body):
    return plant.world.observe().body(body).xpos.copy()


# -- scenery ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS)
def test_a_task_stands_before_the_robot_without_becoming_a_part_of_it(task):
    plant, alone = plant_of(task, 3), MujocoPlant("avatar", tick=0.002, stop_state="hold")
    assert plant.joints == alone.joints and plant.actuators == alone.actuators
    np.testing.assert_array_equal(plant.true_q, alone.true_q)
    progress = run(plant, 0.5)
    run_alone = [alone.tick() for _ in range(250)]
    assert len(run_alone) == 250 and not (progress.done or progress.failed) and progress.steps_done == 0
    np.testing.assert_allclose(plant.true_q, alone.true_q, atol=1e-9)  # nothing touches it
    names = {entity.name for entity in plant.rehearsal.scenery}
    assert names <= set(plant.entities()) and all(
        np.isfinite(place(plant, body)).all() for body in plant.rehearsal.task.shown
    )
    with pytest.raises(EntityError, match="belongs to the robot's scene"):
        plant.delete(next(iter(names)))


@pytest.mark.parametrize("task", TASKS)
def test_what_stands_there_rests_where_it_was_put(task):
    plant = plant_of(task, 1)
    before = {name: values.copy() for name, values in plant.world.scenery_joints().items()}
    run(plant, 1.0)
    for name, values in plant.world.scenery_joints().items():
        np.testing.assert_allclose(
            values, before[name], atol=0.003, err_msg=name
        )  # a millimetre of free fall onto the table


def test_seeds_differ_and_repeat():
    first, again, other = (plant_of("canisters", seed).world.scenery_joints() for seed in (4, 4, 5))
    assert all((first[name] == again[name]).all() for name in first)
    assert not any((first[name] == other[name]).all() for name in first)
    heavier = {
        tuple(np.argsort([entity.content for entity in rehearse("canisters", s).scenery[1:3]])) for s in range(8)
    }
    assert len(heavier) == 2  # either may be the heavier one


def test_reset_scenario_and_spawning_leave_the_scenery_alone():
    plant = plant_of("canisters", scenario="[{time: 0.1, action: attach, frame: right_palm, mass: 0.3}]")
    before = plant.world.scenery_joints()
    put(plant, "canister_left", (0.7, 0.4, HEIGHT + 0.3))
    plant.spawn("cube", uri="refit:box?mass=0.2&size=0.02,0.02,0.02", position=(0.8, 0.5, 1.0))
    assert place(plant, "canister_left")[1] == pytest.approx(0.4)
    run(plant, 0.2)
    assert {"cube", "payload"} <= set(plant.entities())
    plant.reset()
    assert not {"cube", "payload"} & set(plant.entities()) and {"table", "canister_left"} <= set(plant.entities())
    for name, values in plant.world.scenery_joints().items():
        np.testing.assert_array_equal(values, before[name])


def test_an_unknown_task_and_a_robot_that_lacks_what_it_needs_are_refused_in_words():
    with pytest.raises(PlantError, match="no task 'juggling'.*switch, canisters"):
        rehearse("juggling")
    with pytest.raises(PlantError, match="needs a body 'base'"):
        MujocoPlant("panda", rehearsal=rehearse("passage"))


# -- judges -------------------------------------------------------------------------------------------


def test_the_lever_is_judged_by_its_angle():
    plant = plant_of("switch")
    joint = plant.world.model.joint("switch/lever")
    plant.world.data.qpos[joint.qposadr[0]] = 0.9
    assert not run(plant, 0.3).done
    plant.world.data.qpos[joint.qposadr[0]] = 1.1
    progress = run(plant, 0.3)
    assert progress.done and progress.sentence == "Done: a lever is pressed down." and progress.share == 1.0
    assert run(plant, 0.2).elapsed == progress.elapsed  # it has ended
    plant.reset()
    assert plant.rehearsal.progress.steps_done == 0 and plant.rehearsal.progress.sentence == "Press the lever down."


def test_friction_holds_the_lever_where_it_was_left():
    plant = plant_of("switch")
    address = plant.world.model.joint("switch/lever").qposadr[0]
    plant.world.data.qpos[address] = 0.5
    run(plant, 1.0)
    assert plant.world.data.qpos[address] == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_the_heavier_canister_counts_once_it_was_lifted_and_stands_on_the_mark(seed):
    plant = plant_of("canisters", seed)
    mass = {name: plant.world.model.body(name).subtreemass[0] for name in ("canister_right", "canister_left")}
    heavy, light = max(mass, key=mass.get), min(mass, key=mass.get)
    assert mass[heavy] == pytest.approx(3.0 * mass[light])
    mark = place(plant, "mark")
    put(plant, light, mark + (0.0, 0.3, 0.3))  # lifting the other one is no step
    assert run(plant, 0.06).steps_done == 0
    stands = mark + (0.0, 0.0, 0.081)
    put(plant, heavy, stands)
    assert run(plant, 0.8).steps_done == 0  # pushed there, not lifted
    for _ in range(15):
        put(plant, heavy, stands + (0.0, 0.0, 0.1))
        run(plant, 0.02)
    assert plant.rehearsal.progress.steps_done == 1
    put(plant, heavy, stands)
    assert run(plant, 1.0).done


def test_the_lighter_canister_on_the_mark_ends_it():
    plant = plant_of("canisters", 2)
    mass = {name: plant.world.model.body(name).subtreemass[0] for name in ("canister_right", "canister_left")}
    put(plant, min(mass, key=mass.get), place(plant, "mark") + (0.0, 0.0, 0.081))
    progress = run(plant, 0.1)
    assert progress.failed and not progress.done and "lighter" in progress.sentence
    fallen = plant_of("canisters", 2)
    put(fallen, "canister_left", (0.7, 0.0, HEIGHT + 0.04), (np.sqrt(0.5), np.sqrt(0.5), 0, 0))
    assert run(fallen, 0.1).sentence == "A canister fell over."


def test_the_passage_is_passed_without_touching():
    plant = plant_of("passage", 5)
    q = plant.true_q.copy()
    rocks = [place(plant, name) for name in ("rock_right", "rock_left")]
    middle = 0.5 * (rocks[0] + rocks[1])
    assert rocks[1][1] - rocks[0][1] == pytest.approx(0.8 + 2 * 0.4)
    for x, y, done, failed in (
        (middle[0], middle[1] + 0.2, False, True),
        (middle[0], middle[1], False, False),
        (middle[0] + 0.95, 0.0, True, False),
    ):
        plant.reset()
        q[:2] = x, y
        plant.set_state(q, 0 * q)
        progress = run(plant, 0.06)
        assert (progress.done, progress.failed) == (done, failed), (x, y, progress)


def test_the_drill_has_to_be_held_for_its_bit_to_count():
    plant = plant_of("drill")
    bolt = place(plant, "bolt")
    put(plant, "drill", bolt - (0.19, 0.0, 0.175))
    assert run(plant, 0.04).steps_done == 0  # it floats there for a moment, and nobody holds it
    put(plant, "drill", (0.7, 0.9, 0.3))
    assert run(plant, 0.3).sentence == "The drill fell down."


def test_the_rough_rock_alone_belongs_into_the_box():
    plant = plant_of("rocks", 1)
    faces = plant.rehearsal.task.faces
    rough = max(STONES, key=lambda name: faces[name].surface.roughness)
    smooth = next(name for name in STONES if name != rough)
    floor = place(plant, "bin")
    for _ in range(10):
        put(plant, rough, floor + (0.0, 0.0, 0.3))
        run(plant, 0.02)
    assert plant.rehearsal.progress.steps_done == 1
    put(plant, rough, floor + (0.0, 0.0, 0.06))
    assert run(plant, 1.0).done
    plant.reset()
    put(plant, smooth, floor + (0.0, 0.0, 0.06))
    assert run(plant, 0.5).sentence == "A smooth rock was put into the box."


def test_a_rock_is_drawn_with_its_face_where_the_task_has_it():
    rehearsal = rehearse("rocks", 2)
    drawn = {entity.name: entity for entity in rehearsal.pictured()}
    for name, face in rehearsal.task.faces.items():
        model = mujoco.MjModel.from_xml_string(str(drawn[name].content))
        geom, field = model.geom("face"), model.hfield("face")
        np.testing.assert_allclose(model.geom_pos[geom.id], face.middle, atol=0.005)
        turn = np.zeros(9)
        mujoco.mju_quat2Mat(turn, model.geom_quat[geom.id])
        np.testing.assert_allclose(turn.reshape(3, 3), face.axes, atol=1e-6)
        assert field.size[:2] == pytest.approx(face.half) and not model.geom_contype[geom.id]
    assert [e.name for e in rehearsal.pictured()] == [e.name for e in rehearsal.scenery]


# -- what it is worth ---------------------------------------------------------------------------------


def test_points_are_those_of_the_steps_that_were_done():
    assert {name: len(task(0).steps) for name, task in TASKS.items()} == {name: len(p) for name, p in POINTS.items()}
    assert points("canisters", 0) == () and points("canisters", 1) == (6,) and points("drill", 1) == ()
    everything = [(name, len(steps)) for name, steps in POINTS.items()]
    assert score(everything) == 6 and score([*everything, *everything]) == 6 and score([]) == 0
    assert Rehearsed("canisters", 0.5, "", False, 1.0).steps_done == 1
    with pytest.raises(ValueError, match="juggling"):
        points("juggling", 1)
