"""A payload on an arm of servos, as its driver saw it: uneven stamps, coarse readings, sticky gears.

`servo_arm_payload.npz` is six seconds of `./refit demo --robot dxl_arm` (emulated servos on a pseudo-terminal): t (n,) [s], q, v, effort
(n, 6). At 5 s 0.2 kg appear in the hand. What is left over of such readings repeats itself from sample to sample, which a plant with white
noise does not show.
"""

from pathlib import Path

import numpy as np

from nodes.control.refit_session import RefitSession
from nodes.control.refit_worker_config import RefitWorkerConfig
from nodes.framework.joint_state_gate import JointSample
from sim_core.multibody import load_model

CHANGE, PAYLOAD, WITHIN = 5.0, 0.2, 3.0
#: as the robot's launch file has it
CONFIG = RefitWorkerConfig(
    robot="dxl_arm", sample_period=0.004, window=1.5, max_evaluations=40, position_noise=4.4e-4, velocity_noise=7e-3
)


def test_a_payload_is_known_for_good_and_taken_for_nothing_else():
    recorded = np.load(Path(__file__).with_name("servo_arm_payload.npz"))
    model = load_model("dxl_arm")
    hand = model.parameters.index("hand.mass")
    session, known = RefitSession(model, CONFIG), []
    session.warm_up()
    for t, *state in zip(recorded["t"], *(recorded[name].astype(float) for name in ("q", "v", "effort"))):
        session.see(JointSample(t, *state))
        if session.due:
            session.round()
            known.append((t, session.p[hand] - model.parameters.nominal[hand], session.online.free))
    t, mass, free = np.array(known).T
    assert not free.any(), "what the refit holds was estimated as well"
    before, after = t < CHANGE, t > CHANGE + WITHIN
    assert before.sum() > 4 and np.abs(mass[before]).max() < 0.02
    assert after.sum() > 2 and np.abs(mass[after] - PAYLOAD).max() < 0.05 * PAYLOAD
