"""One poke on the simulated robot, and what its bag says of it: the same to the last bit, and near the truth."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("rosbags")

from identification.elastic.poke_bag import read_poke_bag
from identification.elastic.poke_files import read_pokes
from recording import BagWriter
from recording.message_types import typestore
from sim_core.command import Command, Mode
from sim_core.elastic.poke import Poke, downsampled
from sim_core.elastic.poke_motion import PokeOrder, PokeOutcome, PokePhase, PokeSettings
from sim_core.elastic.poking_arm import PERIOD, PokeReach, PokingArm
from sim_core.elastic.probe_reading import Heard
from sim_core.elastic.rigid_body import point_probe
from sim_core.elastic.surface import Surface
from sim_core.multibody import load_model
from sim_core.plant import MujocoPlant
from sim_core.plant.soft_object import PokedObject

pytestmark = pytest.mark.pure

ROBOT, STIFFNESS, LIMIT = "panda_poker", 1500.0, 4.0
#: where the surface is seen, and by how much it is higher in truth [m]
POINT, HIGHER = np.array([0.45, 0.05, 0.25]), 0.0012
#: what the sensor says besides [N], [N m], its noise [N]
OFFSET, NOISE = np.array([0.7, -1.2, 2.5, 0.01, 0.02, -0.01]), 0.02
KINDS = {
    "joint_states": "sensor_msgs/msg/JointState",
    "wrench": "geometry_msgs/msg/WrenchStamped",
    "poke_arm/meta": "refit_interfaces/msg/PokeMeta",
    "robot_description": "std_msgs/msg/String",
    "run_info": "std_msgs/msg/String",
}
TOLD = {PokePhase.PRESS: 1, PokePhase.RETRACT: 2, PokePhase.ENDED: 3}


class Spring:
    def press(self, points):
        force = np.array([0.0, 0.0, STIFFNESS * max(0.0, -points[0, 2])])
        return SimpleNamespace(force=force, torque=np.cross(points[0], force))


class Day:
    """A poke with the whole physics, and all that was said meanwhile.

    Attributes:
        motion: the poke. truth: stamp, displacement of the true tip from the point [m] and true force [N], rows. joints, words: stamps with
            positions and wrenches. phases: stamps by number.
    """

    def __init__(self):
        around = PokedObject(
            Spring(), np.array([[-0.1, -0.1, -0.1], [0.1, 0.1, 0.0]]), point_probe(), "spring", POINT + [0, 0, HIGHER]
        )
        settings = dict(stop_state="hold", servo_bandwidth=8.0, position_noise=1e-5, velocity_noise=1e-3)
        self.plant = plant = MujocoPlant(ROBOT, tick=0.002, wrench_site="wrist", seed=3, poked=around, **settings)
        self.model, rng = load_model(ROBOT), np.random.default_rng(5)
        quick = PokeSettings(standoff=0.004, clearance=0.02, transit=0.3, turning=1.5, approach=0.05)
        arm = PokingArm(self.model, "probe_tip", "wrist", quick, PokeReach(travel=0.3))
        arm.start_at(plant.q)
        self.motion = motion = arm.poke(PokeOrder(POINT, [0.0, 0.0, 1.0], LIMIT))
        self.joints, self.words, self.phases, self.truth = [], [], {0: 0.0}, []
        index, rows = np.arange(7), np.zeros((7, 14))
        while not motion.ended:
            assert plant.t < 30.0, motion.phase
            word = (plant.t, plant.wrench() + OFFSET + NOISE * np.r_[rng.standard_normal(3), 0.0, 0.0, 0.0])
            self.words.append(word)
            joints = arm.cycle(plant.q, plant.v, Heard(plant.t, (word,)), PERIOD)
            if motion.phase in TOLD:
                stamp = {PokePhase.PRESS: motion.log.begun, PokePhase.RETRACT: motion.log.ended}.get(
                    motion.phase, plant.t
                )
                self.phases.setdefault(TOLD[motion.phase], stamp)
            rows[index, index], rows[index, 7 + index] = joints.kp, joints.kd
            plant.command(
                Command(
                    Mode.FEEDBACK,
                    plant.t,
                    plant.joints,
                    joints.effort,
                    joints.position,
                    joints.velocity,
                    gain=rows.copy(),
                )
            )
            tip = arm.pose(plant.true_q).position
            self.truth.append((plant.t, float(POINT[2] - tip[2]), STIFFNESS * max(0.0, POINT[2] + HIGHER - tip[2])))
            for _ in range(2):
                self.joints.append((plant.t, plant.q.copy()))
                plant.tick()

    def write(self, path, leave=(), until=np.inf, drift=0.0, lost=()):
        """The bag: without some topics, up to a stamp [s], with a force that the sensor says more after the poke [N]."""
        types = typestore(*KINDS.values()).types

        def header(stamp, frame=""):
            nanoseconds = round(1e9 * stamp)
            when = types["builtin_interfaces/msg/Time"](sec=nanoseconds // 10**9, nanosec=nanoseconds % 10**9)
            return types["std_msgs/msg/Header"](stamp=when, frame_id=frame)

        def vector(kind, values):
            return types[f"geometry_msgs/msg/{kind}"](*(float(x) for x in values))

        said = [("robot_description", 0.0, types[KINDS["robot_description"]](data=self.model.xml))]
        info = json.dumps({"robot": ROBOT, "model_hash": self.model.hash})
        said.append(("run_info", 0.0, types[KINDS["run_info"]](data=info)))
        for stamp, q in self.joints:
            fields = (list(self.model.joint_names), q, np.zeros(7), np.zeros(7))
            said.append(("joint_states", stamp, types[KINDS["joint_states"]](header(stamp), *fields)))
        for stamp, wrench in self.words:
            if lost and lost[0] < stamp <= lost[1]:
                continue
            more = np.r_[0.0, 0.0, -drift if stamp > self.motion.log.ended else 0.0]  # the wrist looks down
            both = types["geometry_msgs/msg/Wrench"](
                vector("Vector3", wrench[:3] + more), vector("Vector3", wrench[3:])
            )
            said.append(("wrench", stamp, types[KINDS["wrench"]](header(stamp, "wrist"), both)))
        for phase, stamp in self.phases.items():
            order = self.motion.order
            meta = types[KINDS["poke_arm/meta"]](
                header(stamp, "world"), "spring", 7, "point", vector("Point", order.point), vector("Vector3", order.normal),
                0.0, order.speed, order.force_limit, phase,
            )  # fmt: skip
            said.append(("poke_arm/meta", stamp, meta))
        with BagWriter(path) as bag:
            for topic, stamp, message in sorted(said, key=lambda one: one[1]):
                if topic not in leave and stamp <= until:
                    bag.add_topic(f"/{topic}", KINDS[topic])
                    bag.write_message(f"/{topic}", round(1e9 * (stamp + 0.001)), message)
        return path


@pytest.fixture(scope="module")
def day():
    return Day()


@pytest.fixture(scope="module")
def bag(day, tmp_path_factory):
    return day.write(tmp_path_factory.mktemp("poke") / "bag")


def test_the_poke_stops_with_the_first_reading_at_its_limit(day):
    motion, log = day.motion, day.motion.log
    assert motion.outcome is PokeOutcome.DONE, motion.why
    f = np.array(log.force)
    assert (f[:-1] < LIMIT).all() and LIMIT <= f[-1] and motion.peak < LIMIT + 0.5
    np.testing.assert_allclose(np.diff(log.stamp), 0.004, atol=1e-9)  # 250 readings in a second
    d, t = np.array(log.displacement), np.array(log.stamp)
    for part in (d < -HIGHER - 5e-4, d > -HIGHER + 3e-4):  # in the air and in the object
        assert np.polyfit(t[part], d[part], 1)[0] == pytest.approx(0.002, rel=0.05)
    assert abs(log.drift) < 0.02 and max(abs(np.array(log.tip)[:, :2] - POINT[:2]).max(0)) < 5e-4


def test_displacement_and_force_are_the_true_ones(day):
    """Within 0.1 mm and 0.05 N, with an offset of the sensor that is larger than the poke's force."""
    log = day.motion.log
    true = {round(1e4 * t): (d, f) for t, d, f in day.truth}
    apart = np.array(
        [np.subtract(true[round(1e4 * t)], (d, f)) for t, d, f in zip(log.stamp, log.displacement, log.force)]
    )
    assert np.abs(apart[:, 0]).max() < 1e-4
    # The noise of a single reading is the sensor's own: what is left of 25 of them is the method's.
    smooth = np.convolve(apart[:, 1], np.full(25, 0.04), "valid")
    assert np.abs(smooth).max() < 0.05 and np.std(apart[:, 1]) < 2.0 * NOISE


def test_a_bag_tells_the_same_to_the_last_bit(day, bag):
    (poke,), notes = read_poke_bag(bag)
    log = day.motion.log
    assert not notes and not poke.complaint
    assert (poke.number, poke.object, poke.probe, poke.force_limit) == (7, "spring", "point", LIMIT)
    assert poke.log.displacement == log.displacement and poke.log.force == log.force
    assert np.array_equal(poke.log.wrench, log.wrench) and poke.log.stamp == pytest.approx(log.stamp, abs=1e-9)
    assert abs(poke.log.drift - log.drift) < 0.02


def test_its_eight_pairs_are_those_of_the_result(day, bag):
    grey, up = np.full((3, 3), 0.5), np.tile([0.0, 0.0, 1.0], (3, 1))
    near = POINT + np.array([[0.003, 0.0, 0.0], [0.1, 0.0, 0.0], [0.1, 0.1, 0.0]])
    surface = Surface(near, grey, up)
    (poke,) = read_pokes(bag, surface, 8)
    log = day.motion.log
    direct = downsampled(Poke(surface.features[0], np.array(log.displacement), np.array(log.force)), 8)
    assert (
        len(poke) == 8
        and np.array_equal(poke.displacement, direct.displacement)
        and np.array_equal(poke.force, direct.force)
    )
    assert np.array_equal(poke.feature, surface.features[0])
    with pytest.raises(ValueError, match="103 mm off the surface, at most 20 mm"):
        read_pokes(bag, Surface(near + [0.1, 0.0, 0.0], grey, up), 8)


def test_a_sensor_that_drifted_is_found_out_from_the_bag(day, tmp_path):
    (poke,), _ = read_poke_bag(day.write(tmp_path / "bag", drift=0.6))
    assert poke.log.drift == pytest.approx(0.6, abs=0.03) and "the force in the air drifted by" in poke.complaint


@pytest.mark.parametrize(
    "made, says",
    [
        (lambda day: dict(leave=("wrench",)), "lacks wrench"),
        (lambda day: dict(leave=("poke_arm/meta",)), "lacks poke_arm/meta"),
        (lambda day: dict(leave=("run_info",)), "lacks run_info|run_info"),
        (lambda day: dict(until=day.phases[1] - 0.1), "poke 7 is left out: it did not come to press"),
        (lambda day: dict(until=day.phases[2] - 0.1), "poke 7 is left out: the recording ends while it presses"),
        (lambda day: dict(lost=(0.0, day.phases[1])), "no wrench was recorded in the 0.2 s before it pressed"),
        (lambda day: dict(lost=(day.phases[1], 99.0)), "no wrench was recorded while it pressed"),
    ],
)
def test_a_bag_that_cannot_be_used_says_why(day, tmp_path, made, says):
    with pytest.raises(ValueError, match=says):
        read_poke_bag(day.write(tmp_path / "bag", **made(day)))
