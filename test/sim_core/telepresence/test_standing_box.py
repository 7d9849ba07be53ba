"""What stands around: as it is written, as it is seen from the base, and what arms and base do before it, by true contacts."""

import mujoco
import numpy as np
import pytest
from rehearsal import REST, Rehearsal

from sim_core.plant.rehearsal.tasks import TASKS
from sim_core.telepresence.standing_box import seen_from, standing_box, standing_boxes

#: a table at the right side, whose edge an elbow meets when its hand is led down and outwards
TABLE = "table: 0.05 -0.67 0.765 0.5 0.5 0.03"


def test_a_box_is_what_was_written():
    box = standing_box("work table : 1 -2 0.5 0.4 0.6 0.02 90")
    assert box.name == "work table" and box.half == pytest.approx([0.2, 0.3, 0.01])
    assert box.pose.position == pytest.approx([1.0, -2.0, 0.5])
    assert box.pose.rotation @ [1.0, 0.0, 0.0] == pytest.approx([0.0, 1.0, 0.0])
    assert standing_box(TABLE).pose.rotation == pytest.approx(np.eye(3))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "table",
        "table: 1 2 3",
        "table: 1 2 3 0.5 0.5 0",
        "table: 1 2 3 1 1 nan",
        ": 1 2 3 1 1 1",
        "t: 1 2 3 1 1 1 0 0",
        "t: a",
    ],
)
def test_what_is_written_otherwise_is_refused_with_what_was_found(text):
    with pytest.raises(ValueError, match="boxes: expected 'name: x y z dx dy dz' or .* found '") as error:
        standing_boxes([text])
    assert str(error.value).endswith(f"'{text}'")


def test_one_name_twice_is_refused():
    with pytest.raises(ValueError, match="found 'table' twice"):
        standing_boxes([TABLE, TABLE])


def test_seen_from_a_base_it_is_where_it_was():
    """A corner of the box, from the base's axes back to the world, is the same point."""
    box, base = standing_box("table: 0.8 0.3 0.7 0.5 0.2 0.1 25"), (0.4, -1.1, 0.7)
    seen = seen_from(box, base)
    corner = np.array([1.0, -1.0, 1.0])
    inner = seen.pose.position + seen.pose.rotation @ (corner * seen.half)
    c, s = np.cos(base[2]), np.sin(base[2])
    back = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]]) @ inner + [base[0], base[1], 0.0]
    assert back == pytest.approx(box.pose.position + box.pose.rotation @ (corner * box.half))


def contact_force(plant):
    """Of all contacts of the arms with the table [N]."""
    model, data = plant.world.model, plant.world.data
    table = {g for g in range(model.ngeom) if model.body(model.geom_bodyid[g]).name.startswith("table")}
    total, force = 0.0, np.zeros(6)
    for k in range(data.ncon):
        geoms = set(data.contact.geom[k].tolist())
        if table & geoms and all(model.geom_bodyid[g] for g in geoms):  # and not with the floor
            mujoco.mj_contactForce(model, data, k, force)
            total += float(np.linalg.norm(force[:3]))
    return total


def spawned(model, text):
    """A robot before a box that the world has in truth, and which the robot was told of or not."""
    run = Rehearsal(model).run(0.1)
    box = standing_box(text)
    size = " ".join(str(value) for value in box.half)
    foot = 0.5 * (box.pose.position[2] - box.half[2])
    top = f'<geom type="box" size="{size}" mass="1000"/>'
    leg = f'<geom type="box" pos="0 0 {-foot - box.half[2]}" size="0.2 0.2 {foot}" mass="10"/>'
    text = f"<mujoco><worldbody><body name='table'><freejoint/>{top}{leg}</body></worldbody></mujoco>"
    run.plant.spawn("table", text=text, position=tuple(box.pose.position))
    return run


@pytest.mark.parametrize("told", [True, False])
def test_an_elbow_that_is_led_at_a_tables_edge_stops_short_of_it(avatar_model, told):
    run = spawned(avatar_model, TABLE)
    run.avatar.boxes = standing_boxes([TABLE]) if told else ()
    run.clutch[0], forces, said = True, [], set()

    def move(t):
        run.hands[0] = REST[0] + min(1.0, t / 2.0) * np.array([0.0, -0.2, -0.25])
        forces.append(contact_force(run.plant))
        said.add(run.avatar.arms[0].message)

    run.run(3.0, move=move)
    if told:
        assert max(forces) == 0.0 and any("table" in sentence for sentence in said)
    else:
        assert max(forces) > 5.0 and not any("table" in sentence for sentence in said)


def test_a_base_does_not_drive_an_arm_into_a_box_and_goes_elsewhere(avatar_model):
    """A shelf before the right hand, higher than what rangefinders see."""
    text = "shelf: 1.1 -0.2 1.05 0.3 0.4 0.03"
    run = Rehearsal(avatar_model).run(0.1)
    run.avatar.boxes = standing_boxes([text])
    box = standing_box(text)
    run.stick = [1.0, 0.0, 0.0]
    run.run(4.0)
    hand = run.effector("right").position[0] + run.q[0]
    edge = box.pose.position[0] - box.half[0]
    assert (
        run.avatar.base.obstacle.startswith("The base stands: right ")
        and "shelf would touch" in run.avatar.base.obstacle
    )
    assert 0.0 < edge - hand < 0.12 and abs(run.v[0]) < 1e-3
    run.stick = [-1.0, 0.0, 0.0]
    run.run(1.0)
    assert run.v[0] < -0.15 and not run.avatar.base.obstacle


def test_a_box_stays_where_it_is_while_the_base_turns(avatar_model):
    run = Rehearsal(avatar_model).run(0.1)
    run.avatar.boxes = standing_boxes(["post: 3 0 1 0.1 0.1 2"])
    run.stick = [0.0, 0.0, 1.0]
    run.run(2.0)
    seen = run.avatar.guard.boxes[0].pose.position
    assert np.arctan2(seen[1], seen[0]) == pytest.approx(-run.q[2], abs=0.02) and np.hypot(*seen[:2]) == pytest.approx(
        3.0, abs=0.02
    )


@pytest.mark.parametrize("task", TASKS)
def test_tasks_tell_of_the_tops_of_their_tables(task):
    made = TASKS[task](0)
    tables = [entity for entity in made.scenery if entity.name == "table"]
    boxes = standing_boxes(made.boxes)
    assert len(boxes) == len(tables)
    for entity, box in zip(tables, boxes):
        model = mujoco.MjModel.from_xml_string(entity.content)
        top = model.geom_pos[0] + entity.position
        assert box.pose.position == pytest.approx(top) and box.half == pytest.approx(model.geom_size[0])
