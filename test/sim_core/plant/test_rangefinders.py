"""Rangefinders in MuJoCo: distances in closed form, what a cone sees and what it does not."""

import mujoco
import numpy as np
import pytest

from config.description import RangeSite
from config.robot import load_robot
from sim_core.plant import MujocoPlant, PlantError
from sim_core.plant.rangefinders import Rangefinders, cone, nearest, rangefinders_of

ROBOT = "avatar"
#: a slider that carries a rangefinder 0.2 m above the floor, looking ahead, with a plate of its own in the beam, before other things
WORLD = """<mujoco model="finder"><worldbody><geom type="plane" size="9 9 1"/>
  <body name="cart" pos="0 0 0.2"><joint name="x" type="slide" axis="1 0 0"/><geom size="0.05" mass="1"/>
    <site name="eye" pos="0.06 0 0" zaxis="1 0 0"/>
    <body name="arm"><geom type="box" pos="0.3 0 0" size="0.01 0.4 0.15" mass="1"/></body></body>
  {things}</worldbody></mujoco>"""


def distance(things, field_of_view=0.7, maximum=5.0):
    model = mujoco.MjModel.from_xml_string(WORLD.format(things=things))
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    return nearest(model, data, model.site("eye").id, cone(field_of_view), maximum)


def test_a_cone_is_even_and_as_wide_as_it_is_said_to_be():
    rays = cone(0.7)
    assert len(rays) == 127 and np.linalg.norm(rays, axis=1) == pytest.approx(np.ones(127))
    off = np.arccos(np.clip(rays[:, 2], -1.0, 1.0))
    assert off.max() == pytest.approx(0.35) and rays.sum(0)[:2] == pytest.approx([0.0, 0.0], abs=1e-9)
    gaps = np.sort(np.arccos(np.clip(rays @ rays.T, -1.0, 1.0)), axis=1)[:, 1]
    assert gaps.max() < 0.07  # no ray is alone: 4 cm at 0.6 m


@pytest.mark.parametrize("degrees", [0.0, 10.0, 20.0, 35.0])
def test_a_wall_at_an_angle(degrees):
    """1.5 m ahead on the axis, turned by t: a cone of half-angle h sees it at 1.5 cos t, or 1.5 cos t / cos(t - h) beyond h."""
    turn = np.deg2rad(degrees)
    seen = distance(f'<geom type="box" pos="1.56 0 0" size="0.0001 8 8" euler="0 0 {degrees}"/>')
    expected = 1.5 * np.cos(turn) / np.cos(max(0.0, turn - 0.35))
    # between two rays of the outmost ring, and off the perpendicular by half a ring: within 1 - cos 0.03
    assert seen == pytest.approx(expected, rel=1e-3)


def test_a_post_beside_the_axis_is_seen_by_the_cone_alone():
    post = '<geom type="cylinder" pos="1.06 {y} 0.5" size="0.04 0.5"/>'
    beside = distance(post.format(y=0.25))  # 14 degrees off
    assert beside == pytest.approx(np.hypot(1.0, 0.25) - 0.04, abs=3e-3)
    assert distance(post.format(y=0.25), field_of_view=0.1) == np.inf
    assert distance(post.format(y=0.5)) == np.inf  # 27 degrees


def test_neither_itself_nor_the_floor_nor_what_is_too_far():
    assert distance("") == np.inf  # a plate of its own stands 0.24 m ahead, and the floor in the cone
    wall = '<geom type="box" pos="4.06 0 0" size="0.0001 1 1"/>'
    assert distance(wall) == pytest.approx(4.0, rel=1e-3) and distance(wall, maximum=3.9) == np.inf
    assert distance('<geom type="box" pos="2 0 0.03" size="0.5 0.5 0.03"/>') < 2.0  # a step on the floor is no floor
    upright = '<geom type="plane" pos="2.06 0 0" size="3 3 1" zaxis="-1 0 0"/>'
    assert distance(upright) == pytest.approx(2.0, rel=1e-3)


class Scene:
    """A wall that is moved, before rangefinders."""

    def __init__(self, *sites, seed=0):
        self.model = mujoco.MjModel.from_xml_string(
            WORLD.format(
                things='<body name="wall" mocap="true" pos="2.06 0 0"><geom type="box" size="0.0001 3 3"/></body>'
            )
        )
        self.data, self.asked = mujoco.MjData(self.model), 0
        self.finders = Rangefinders(self.model, sites, seed)

    def present(self):
        self.asked += 1
        mujoco.mj_forward(self.model, self.data)
        return self.model, self.data

    def read(self, t):
        return self.finders.read(t, self.present)


def test_readings_come_at_their_rate_and_stay_until_the_next():
    scene = Scene(RangeSite("eye"))
    ranges, stamps = [], set()
    for k in range(50):  # 0.4 s in steps of 8 ms, and a wall that comes nearer by 1 mm each
        scene.data.mocap_pos[0, 0] = 2.06 - 0.001 * k
        (reading,) = scene.read(0.008 * k)
        ranges.append(reading.range)
        stamps.add(reading.stamp)
    # at the first step at or after each tenth of a second
    assert sorted(stamps) == pytest.approx([0.0, 0.104, 0.2, 0.304]) and scene.asked == 4
    assert ranges[12] == pytest.approx(2.0, abs=1e-3) and ranges[13] == pytest.approx(1.987, abs=1e-3)


def test_limits_and_noise():
    scene = Scene(RangeSite("eye", rate=1000.0, noise=0.01))
    made = np.array([scene.read(0.001 * k)[0].range for k in range(1000)])
    assert made.mean() == pytest.approx(2.0, abs=2e-3) and made.std() == pytest.approx(0.01, rel=0.1)
    assert [scene.read(0.001 * k)[0].range for k in range(1000, 1010)] != list(made[:10])
    scene.finders.reset(0.0, 0)
    assert [scene.read(0.001 * k)[0].range for k in range(10)] == list(made[:10])
    assert Scene(RangeSite("eye", noise=0.01), seed=1).read(0.0)[0].range != made[0]
    scene.data.mocap_pos[0, 0] = 0.26
    assert scene.read(1.0)[0].range == 0.3  # nearer than it can tell
    scene.data.mocap_pos[0, 0] = 9.0
    assert scene.read(2.0)[0].range == np.inf
    with pytest.raises(PlantError, match="site 'nose' is not in the model; it has eye"):
        Rangefinders(scene.model, [RangeSite("nose")])
    with pytest.raises(ValueError, match="minimum: expected one below maximum"):
        RangeSite("eye", minimum=2.0, maximum=1.0)


def test_what_is_spawned_is_seen_and_what_is_deleted_no_more():
    sites = rangefinders_of(ROBOT)
    assert len(sites) == 18 and [site.site for site in sites[:4:3]] == ["range_front", "range_rear"]
    assert rangefinders_of("panda") == rangefinders_of("no such robot") == rangefinders_of(WORLD) == ()
    plant = MujocoPlant(ROBOT, tick=0.002, stop_state="hold", rangefinders=sites)

    def seen():
        for _ in range(51):
            plant.tick()
        return {reading.site: reading.range for reading in plant.ranges()}

    # Arms, base and floor are not seen.
    assert seen() == dict.fromkeys((site.site for site in sites), np.inf)
    box = '<geom type="box" size="0.1 0.1 0.2" mass="20"/>'
    plant.spawn("box", text=box, position=(1.27, 0.0, 0.2))
    found = seen()
    assert found["range_front"] == pytest.approx(0.9, abs=0.01) and found["range_rear"] == np.inf
    assert found["range_front_left"] == pytest.approx(np.hypot(0.9, 0.19), abs=0.02)
    plant.delete("box")
    plant.spawn("box", text=box, position=(-0.41, 0.5, 0.2))
    found = seen()
    assert found["range_front"] == np.inf and found["range_left_4"] == pytest.approx(0.14, abs=0.01)
    assert found["range_right_4"] == np.inf
    plant.reset()
    assert all(reading.range == np.inf and reading.stamp == 0.0 for reading in plant.ranges())


def test_the_avatars_cones_cover_its_width_ahead_and_leave_a_passage_free():
    """What the three ahead see of a thin post anywhere across the base's way, and that they do not see walls 0.40 m beside."""
    plant = MujocoPlant(ROBOT, tick=0.002, stop_state="hold", rangefinders=rangefinders_of(ROBOT))
    post = '<geom type="cylinder" size="0.025 0.4" mass="5"/>'
    ahead_of_it = ("range_front", "range_front_right", "range_front_left")
    for ahead in (0.36, 0.6, 1.0):
        for y in np.linspace(-0.31, 0.31, 12):
            plant.reset()
            plant.spawn("post", text=post, position=(0.27 + ahead, y, 0.4))
            assert min(one.range for one in plant.ranges() if one.site in ahead_of_it) <= np.hypot(ahead, 0.3), (
                ahead,
                y,
            )
    plant.reset()
    wall = '<geom type="box" size="2 0.02 0.5" mass="500"/>'
    plant.spawn("left", text=wall, position=(1.0, 0.42, 0.5))
    plant.spawn("right", text=wall, position=(1.0, -0.42, 0.5))
    assert min(one.range for one in plant.ranges() if one.site in ahead_of_it) > 0.6
    assert load_robot(ROBOT).task.rangefinders == plant.rangefinders.sites
