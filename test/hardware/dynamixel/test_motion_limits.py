"""No stream of goals takes a joint beyond its limits: the bus cycle's own code on emulated motors, in simulated time."""

import numpy as np
import pytest

from hardware.dynamixel.commands import JointFeedback, Law, PositionStream
from hardware.dynamixel.device import GroupOptions, ServoGroup
from hardware.dynamixel.emulated_models import find_model
from hardware.dynamixel.emulated_motors import TICK, Motors
from hardware.dynamixel.joints import Joint
from hardware.dynamixel.tables import CURRENT, MODELS, POSITION
from nodes.devices.dynamixel_limits import joint_limits
from sim_core.gate import CommandGate

MODELS_TRIED = ("XM430-W350", "XM540-W270", "XL430-W250", "XL330-M288")
#: factory position gains of the servos, register values
GAINS = {"XL430-W250": 640, "XL330-M288": 400}


class Bench:
    """A group whose goals go to emulated motors, which move between two cycles.

    Args:
        modes: of the servos. rate: of the cycle [Hz]. inertia: load [kg m^2]. against: outer torque [N m].
    """

    def __init__(self, model, modes, rate, inertia, against=0.0, **settings):
        self.model, self.rate = MODELS[model], rate
        joints = [Joint(f"joint{k}", k + 1, self.model, mode, **settings) for k, mode in enumerate(modes)]
        self.group = ServoGroup("", 1_000_000, joints, GroupOptions(rate=rate, bus_watchdog=0.0))
        self.group._writer, self.group.torque_on = self, True
        n = len(modes)
        self.motors = motors = Motors([find_model(model).motor] * n, [inertia] * n, [0.0] * n)
        motors.i_max[:] = self.model.motor.stall_current
        motors.load[:] = -against
        position = np.array([mode == POSITION for mode in modes])
        gain = GAINS.get(model, 800) / 128.0 / self.model.count * self.model.pwm_unit
        motors.k_p[position] = gain
        motors.r_i[~position] = (motors.R / motors.V)[~position]
        motors.r_v[~position] = (motors.k_e / motors.V)[~position]
        motors.refresh()
        self.k_t = joints[0].k_t
        self.t, self.fastest, self.furthest = 100.0, np.zeros(n), np.zeros(n)
        self.group._last_goals = self.t

    def send(self, state, goals):
        """As GoalWriter's."""
        motors, count = self.motors, self.model.count
        position = motors.k_p > 0.0
        motors.q_goal[:] = motors.q_ref[:] = np.where(position, np.rint(goals.position / count) * count, 0.0)
        motors.i_goal[:] = np.where(position, 0.0, np.nan_to_num(goals.effort) / self.k_t)

    def cap(self, t, effort, factor):
        """As GoalWriter's."""

    def run(self, seconds, every_cycle):
        """Cycles of reading, goals and motion; `every_cycle(t)` before the goals."""
        state, motors, unit = self.group.joint_state, self.motors, self.model.velocity_unit
        state.valid[:] = state.healthy[:] = True
        state.temperature[:] = 30.0
        for _ in range(round(seconds * self.rate)):
            self.t += 1.0 / self.rate
            state.t = self.t
            state.q[:] = np.rint(motors.q / self.model.count) * self.model.count
            state.qd[:] = np.rint(motors.v_meas / unit) * unit
            every_cycle(self.t)
            self.group._send_goals(self.t)
            for _ in range(round(1.0 / self.rate / TICK)):
                motors.step()
                np.maximum(self.fastest, np.abs(motors.v), out=self.fastest)
                np.maximum(self.furthest, np.abs(motors.q), out=self.furthest)


@pytest.mark.parametrize("rate", [50.0, 100.0, 250.0])
@pytest.mark.parametrize("model", MODELS_TRIED)
@pytest.mark.parametrize("against", [0.0, 0.25], ids=["free", "loaded"])
def test_far_position_goals_are_approached_within_the_velocity_limit(model, rate, against):
    """With inertias that such a servo carries; `against`: outer torque that it works against, as a share of its stall torque."""
    torque = against * MODELS[model].motor.stall_torque
    for inertia, limit in ((0.0, 1.0), (0.002, 2.5), (0.01, 1.0), (0.03, 2.5))[: 4 if model.startswith("XM") else 3]:
        bench = Bench(model, [POSITION], rate, inertia, torque, max_velocity=limit)
        stream = PositionStream([0], 0.1)
        assert bench.group.take(stream) == ""
        if against:  # the joint sags at first
            bench.run(0.6, lambda t, stream=stream: stream.set(np.array([0.0]), t))
            bench.fastest[:] = 0.0
        start = bench.motors.q[0]
        bench.run(1.5, lambda t, stream=stream: stream.set(np.array([6.0]), t))
        # It is a limit and no standstill: the joint gets there at a good share of it.
        assert bench.fastest[0] < 1.05 * limit, (inertia, limit)
        assert bench.motors.q[0] - start > (0.4 if against else 0.65) * 1.5 * limit, (inertia, limit)
        if not against:
            bench.run(1.5, lambda t, stream=stream: stream.set(np.array([-6.0]), t))
            assert bench.fastest[0] < 1.05 * limit, (inertia, limit)


def test_goals_below_the_limit_pass_as_they_are():
    """A stream at half the limit is followed as without a limit, to the count."""
    paths = []
    for limit in (2.0, 0.0):
        bench = Bench("XM430-W350", [POSITION], 100.0, 0.005, max_velocity=limit)
        stream, path = PositionStream([0], 0.1), []
        assert bench.group.take(stream) == ""

        def follow(t, bench=bench, stream=stream, path=path):
            stream.set(np.array([1.0 * (t - 100.0)]), t)
            path.append(bench.motors.q[0])

        bench.run(2.0, follow)
        paths.append(path)
    np.testing.assert_array_equal(*paths)


@pytest.mark.parametrize("rate", [100.0, 250.0])
def test_a_constant_effort_takes_no_joint_beyond_its_limits(rate):
    """Full effort for as long as one likes: bounded every cycle by the gate, from the state just measured."""
    for inertia in (0.0, 0.02, 0.05):
        bench = Bench(
            "XM430-W350", [CURRENT, CURRENT], rate, inertia, max_velocity=2.0, max_effort=2.5, min_rad=-2.0, max_rad=2.0
        )
        group = bench.group
        own = bench.motors.J[0] - inertia
        limits = joint_limits(group, np.ones(2, bool), [own + inertia] * 2, [own + inertia] * 2)
        group.bound = CommandGate(limits, 1.0 / rate, supervised=False).bound
        source = JointFeedback(group.arrays, group.loop, np.ones(2, bool), 0.1)
        assert group.take(source) == ""
        zero, gain = np.zeros(2), np.zeros((2, 4))

        def push(t, effort, source=source, zero=zero, gain=gain):
            source.set(Law.EFFORT, t, t, np.asarray(effort), zero, zero, gain)

        for effort in ((2.5, -2.5), (-2.5, 2.5)):
            bench.run(3.0, lambda t, effort=effort: push(t, effort))
            assert (bench.fastest < 1.05 * 2.0).all(), (inertia, bench.fastest)
            assert (bench.furthest < 2.0 + 0.02).all() and (bench.furthest > 1.9).all(), (inertia, bench.furthest)


def test_what_joints_do_that_track_positions_is_no_reason_to_let_the_others_go():
    bench = Bench("XM430-W350", [CURRENT, POSITION], 100.0, 0.01, max_effort=2.5)
    seen = []
    bench.group.bound = lambda effort, q, v, t, lag: seen.append((effort, q, v)) or effort
    bench.motors.q[:], bench.motors.v[:], bench.motors.v_meas[:] = 0.3, 4.0, 4.0
    bench.run(0.01, lambda t: None)
    effort, q, v = seen[-1]
    assert v[0] == pytest.approx(4.0, abs=0.03) and q[0] == pytest.approx(0.3, abs=0.01)
    assert effort[1] == q[1] == v[1] == 0.0


def test_a_closed_gate_ends_the_source_within_a_cycle_with_its_sentence():
    bench = Bench("XM430-W350", [POSITION], 100.0, 0.005, max_velocity=2.0)
    stream, why = PositionStream([0], 0.1), ""
    group = bench.group
    group.closed = lambda: why
    assert group.take(stream) == ""
    bench.run(0.5, lambda t: stream.set(np.array([3.0]), t))
    assert group.source is stream and bench.motors.v[0] > 0.5
    why = "disarmed by a test"
    bench.run(0.01, lambda t: None)
    assert group.source is None and group.source_ended == why
    here = bench.motors.q[0]
    assert bench.motors.q_goal[0] == pytest.approx(here, abs=0.05)
    bench.run(1.0, lambda t: None)
    assert abs(bench.motors.q[0] - here) < 0.05 and abs(bench.motors.v[0]) < 0.02
