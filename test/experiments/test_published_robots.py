"""URDFs of example-robot-data: dynamics and gradients of one of each kind are Pinocchio's.

The whole collection is compared by `./refit experiment robots --quick`, which the test command runs to its checks.
"""

import numpy as np
import pytest

from config.tiers import MissingTierError
from experiments.problems.published_robots import compared, published_urdfs
from sim_core.multibody import ModelError, load_model
from sim_core.plant import MujocoPlant

try:
    URDFS = published_urdfs()
except MissingTierError as missing:
    pytest.skip(str(missing), allow_module_level=True)

#: files without a robot: a joint's child link is missing; no link at all
BROKEN = {
    "falcon_description/urdf/falcon": "'Z_propeller', which is not there",
    "ur_description/urdf/ur3": "at least one <link>",
}
#: robots whose only motion is that of their base
FLYING = {
    "bluevolta_description/urdf/bluevolta",
    "hector_description/robots/quadrotor_base",
    "iris_description/robots/iris_simple",
}
LEAST = 41  # files that have to load
#: one of each kind: arms with and without a gripper that follows, a hand, legs, a humanoid, wheels, what flies
KINDS = (
    "allegro_hand_description/urdf/allegro_left_hand",
    "anymal_b_simple_description/robots/anymal-kinova",
    "bluevolta_description/urdf/bluevolta",
    "double_pendulum_description/urdf/double_pendulum_continuous",
    "iris_description/robots/iris_simple",
    "panda_description/urdf/panda",
    "romeo_description/urdf/romeo_small",
    "solo_description/robots/solo12",
    "tiago_description/robots/tiago",
    "ur_description/urdf/ur3_gripper",
)


def test_the_collection_is_there():
    assert len(URDFS) - len(BROKEN) >= LEAST and FLYING < set(URDFS)


@pytest.mark.parametrize("name", KINDS)
def test_dynamics_and_gradients_are_pinocchios(name):
    """Errors relative to the largest entry or 1; of forward dynamics see `Pinocchio.sizes`."""
    for floating in (False, True):
        found = compared(name, URDFS[name], floating, states=1, seed=3)
        if name in FLYING and not floating:
            assert "floating_base=True" in found.refused
            continue
        assert not found.refused
        assert len(found.errors) == 5 and found.worst < 1e-9, found.errors


@pytest.mark.parametrize("name", BROKEN)
def test_files_without_a_robot_say_why(name):
    with pytest.raises(ModelError, match=BROKEN[name]):
        load_model(URDFS[name])


@pytest.mark.parametrize(
    "name", ["panda_description/urdf/panda", "talos_data/robots/talos_full_v2", "bolt_description/robots/bolt"]
)
def test_plants_run(name):
    """The plant takes the file, stands still where gravity is held, and its followers stay where they belong."""
    model, plant = load_model(URDFS[name]), MujocoPlant(str(URDFS[name]))
    places = [plant.joints.index(joint) for joint in model.joint_names]
    for _ in range(50):
        plant.step(np.zeros(model.nu))
    qpos, _ = model.plant_state(plant.true_q[places], np.zeros(model.nv))
    assert np.abs(plant.true_q - qpos).max() < 0.02
