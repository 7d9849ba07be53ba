"""simulation_interfaces over the wire: the features listed work, and only they are offered."""

import numpy as np
import pytest

pytest.importorskip("rclpy")

from geometry_msgs.msg import PoseStamped
from rclpy.action import ActionClient
from sensor_msgs.msg import JointState
from simulation_interfaces import srv
from simulation_interfaces.action import SimulateSteps
from simulation_interfaces.msg import (
    Bounds,
    EntityCategory,
    EntityFilters,
    EntityState,
    Resource,
    Result,
    SimulationState,
    SimulatorFeatures,
    TagsFilter,
)

from nodes.framework.qos import STATE

OK = Result.RESULT_OK
# Feature -> the services it needs; a feature is listed exactly if its services are there.
NEEDS = {
    "SPAWNING": ["spawn_entity"],
    "DELETING": ["delete_entity"],
    "SPAWNABLES": ["get_spawnables"],
    "ENTITY_STATE_GETTING": ["get_entity_state", "get_entities_states"],
    "ENTITY_STATE_SETTING": ["set_entity_state"],
    "ENTITY_INFO_GETTING": ["get_entity_info"],
    "ENTITY_INFO_SETTING": ["set_entity_info"],
    "ENTITY_BOUNDS": ["get_entity_bounds"],
    "NAMED_POSES": ["get_named_poses"],
    "POSE_BOUNDS": ["get_named_pose_bounds"],
    "SIMULATION_RESET": ["reset_simulation"],
    "SIMULATION_STATE_GETTING": ["get_simulation_state"],
    "SIMULATION_STATE_SETTING": ["set_simulation_state"],
    "STEP_SIMULATION_SINGLE": ["step_simulation"],
    "WORLD_LOADING": ["load_world"],
    "WORLD_UNLOADING": ["unload_world"],
    "WORLD_INFO_GETTING": ["get_current_world"],
    "AVAILABLE_WORLDS": ["get_available_worlds"],
    "SPAWNING_ENTITIES": ["spawn_entities"],
}


DOCUMENTS = {
    "xml": """<mujoco model="kitchen"><option timestep="0.004" gravity="0 0 3"/><worldbody><light pos="0 0 3"/>
      <geom name="floor" type="plane" size="1 1 0.1"/>
      <body name="mug"><freejoint/><geom type="cylinder" size="0.03 0.05" mass="0.3"/>
        <body name="lid" pos="0 0 0.06"><geom type="box" size="0.03 0.03 0.002" mass="0.02"/></body></body>
      </worldbody></mujoco>""",
    "urdf": """<?xml version="1.0"?><robot name="lamp"><link name="foot">
      <inertial><mass value="2"/><inertia ixx="0.1" ixy="0" ixz="0" iyy="0.1" iyz="0" izz="0.1"/></inertial>
      <collision><geometry><box size="0.2 0.2 0.2"/></geometry></collision></link></robot>""",
}


@pytest.fixture(scope="module")
def running(shared_ros):
    shared_ros.start("sim_plant", robot="panda", stop_state="hold", start_paused=True)
    shared_ros.up("sim_plant")
    return shared_ros


@pytest.fixture
def plant(running):
    """A Panda, paused and reset; a function call(service, **fields)."""

    def call(name, /, **fields):
        kind = "".join(part.capitalize() for part in name.split("_"))
        return running.call(getattr(srv, kind), name, **fields)

    call.ros = running
    call("set_simulation_state", state=SimulationState(state=SimulationState.STATE_PAUSED))
    assert call("reset_simulation").result.result == OK
    return call


def pose(frame="", x=0.0, y=0.0, z=0.0):
    message = PoseStamped()
    message.header.frame_id = frame
    message.pose.position.x, message.pose.position.y, message.pose.position.z = x, y, z
    return message


def test_features_listed_are_features_offered(plant):
    answer = plant("get_simulator_features").features
    listed = {name for name in NEEDS if getattr(SimulatorFeatures, name) in answer.features}

    def services():
        return {name for name, _ in plant.ros.node.get_service_names_and_types_by_node("sim_plant", "/")}

    # Services are discovered one after the other.
    plant.ros.until(lambda: {f"/{s}" for name in listed for s in NEEDS[name]} <= services(), what="what is listed")
    offered = services()
    for feature, services in NEEDS.items():
        assert (feature in listed) == all(f"/{s}" in offered for s in services), feature
    assert "one step is 0.002 s" in answer.custom_info and list(answer.spawn_formats) == ["mjcf", "urdf"]
    spawnables = plant("get_spawnables").spawnables
    for k, item in enumerate(spawnables):  # each can be spawned as it stands
        response = plant(
            "spawn_entity", name=f"thing{k}", entity_resource=item.entity_resource, initial_pose=pose(x=1.0 + k, z=2.0)
        )
        assert response.result.result == OK, response.result.error_message
    assert len(plant("get_entities").entities) == 1 + len(spawnables)


def test_spawn_place_fall_and_delete(plant):
    box = Resource(uri="refit:box?mass=0.5")
    assert plant("spawn_entity", name="box", entity_resource=box, initial_pose=pose(x=1.0, z=1.0)).entity_name == "box"
    again = plant("spawn_entity", name="box", entity_resource=box, initial_pose=pose(x=2.0, z=1.0))
    assert again.result.result == srv.SpawnEntity.Response.NAME_NOT_UNIQUE
    renamed = plant(
        "spawn_entity", name="box", allow_renaming=True, entity_resource=box, initial_pose=pose(x=2.0, z=1.0)
    )
    assert (renamed.result.result, renamed.entity_name) == (OK, "box_1")

    state = EntityState()
    state.pose.position.x, state.pose.position.z, state.twist.linear.y = 1.0, 2.0, 0.5
    assert plant("set_entity_state", entity="box", state=state, set_pose=True, set_twist=True).result.result == OK
    assert plant("step_simulation", steps=100).result.result == OK
    fallen = plant("get_entity_state", entity="box").state
    assert fallen.header.frame_id == "world" and fallen.header.stamp.nanosec == 200_000_000
    p = fallen.pose.position
    # Semi-implicit Euler falls h g t / 2 further than the parabola.
    np.testing.assert_allclose([p.x, p.y, p.z], [1.0, 0.1, 2.0 - 0.5 * 9.81 * 0.2 * (0.2 + 0.002)], atol=1e-9)
    states = plant("get_entities_states", filters=EntityFilters(filter="^box"))
    assert list(states.entities) == ["box", "box_1"] and len(states.states) == 2
    objects = plant(
        "get_entities",
        filters=EntityFilters(categories=[EntityCategory(category=EntityCategory.CATEGORY_DYNAMIC_OBJECT)]),
    ).entities
    assert list(objects) == ["box", "box_1"]
    assert plant("get_entity_info", entity="panda").info.category.category == EntityCategory.CATEGORY_ROBOT

    assert plant("delete_entity", entity="box").result.result == OK
    assert plant("delete_entity", entity="box").result.result == Result.RESULT_NOT_FOUND
    assert plant("reset_simulation", scope=srv.ResetSimulation.Request.SCOPE_SPAWNED).result.result == OK
    assert list(plant("get_entities").entities) == ["panda"]
    assert plant("get_entity_state", entity="box_1").result.result == Result.RESULT_NOT_FOUND


@pytest.mark.parametrize("document", DOCUMENTS)
@pytest.mark.parametrize("by", ["string", "path", "uri"])
def test_ordinary_documents_are_spawned_placed_fall_and_go(plant, tmp_path, document, by):
    """MJCF with a scene about it, and URDF with a joint: as text, by the path of a file, by its URI."""
    file = tmp_path / f"a thing.{document}"
    file.write_text(DOCUMENTS[document])
    resource = {
        "string": Resource(resource_string=DOCUMENTS[document]),
        "path": Resource(uri=str(file)),
        "uri": Resource(uri=file.as_uri()),
    }[by]
    response = plant("spawn_entity", name="thing", entity_resource=resource, initial_pose=pose(x=3.0, z=2.0))
    assert response.result.result == OK, response.result.error_message
    info = plant("get_entity_info", entity="thing").info
    assert info.category.category == EntityCategory.CATEGORY_DYNAMIC_OBJECT
    before = plant("get_entity_state", entity="thing").state.pose.position
    assert (before.x, before.y) == (3.0, 0.0)
    assert plant("step_simulation", steps=100).result.result == OK
    state = plant("get_entity_state", entity="thing").state
    assert state.twist.linear.z == pytest.approx(-9.81 * 0.2, rel=1e-6)
    assert before.z - state.pose.position.z == pytest.approx(0.5 * 9.81 * 0.2 * 0.202, rel=1e-6)
    placed = EntityState()
    placed.pose.position.x, placed.pose.position.z = -2.0, 1.0
    assert plant("set_entity_state", entity="thing", state=placed, set_pose=True).result.result == OK
    moved = plant("get_entity_state", entity="thing").state.pose.position
    np.testing.assert_allclose([moved.x, moved.y, moved.z], [-2.0, 0.0, 1.0], atol=1e-9)
    assert plant("delete_entity", entity="thing").result.result == OK
    assert list(plant("get_entities").entities) == ["panda"]


def test_a_payload_spawned_on_the_hand_weighs_on_the_arm(plant):
    joints = plant.ros.listen(JointState, "joint_states", STATE)
    plant("step_simulation", steps=500)
    before = plant("get_entity_state", entity="panda")
    assert before.result.result == OK
    plant.ros.until(lambda: joints and joints[-1].header.stamp.sec == 1)
    held = np.array(joints[-1].effort)
    response = plant(
        "spawn_entity", name="payload", entity_resource=Resource(uri="refit:box?mass=2"), initial_pose=pose("hand_site")
    )
    assert response.result.result == OK, response.result.error_message
    plant("step_simulation", steps=1000)
    plant.ros.until(lambda: joints[-1].header.stamp.sec == 3)
    # The shoulder now carries 2 kg about half a metre out: some 10 N m more.
    assert 5.0 < abs(joints[-1].effort[1] - held[1]) < 15.0
    assert (
        plant("set_entity_state", entity="payload", state=EntityState(), set_pose=True).result.result
        == Result.RESULT_FEATURE_UNSUPPORTED
    )


def test_requests_that_cannot_be_met_have_a_code_and_a_sentence(plant):
    S = srv.SpawnEntity.Response
    for code, fields in (
        (S.NAME_INVALID, dict(name="two words", entity_resource=Resource(uri="refit:box"))),
        (S.UNSUPPORTED_FORMAT, dict(name="a", entity_resource=Resource(uri="https://x/box.sdf"))),
        (S.NO_RESOURCE, dict(name="a", entity_resource=Resource(uri="file:///none.xml"))),
        (S.RESOURCE_PARSE_ERROR, dict(name="a", entity_resource=Resource(resource_string="<geom type='x'/>"))),
        (S.INVALID_POSE, dict(name="a", entity_resource=Resource(uri="refit:box"), initial_pose=pose("elbow"))),
        (S.NAMESPACE_INVALID, dict(name="a", entity_namespace="x", entity_resource=Resource(uri="refit:box"))),
    ):
        result = plant("spawn_entity", **fields).result
        assert result.result == code and result.error_message.endswith("."), fields
    unsupported = Result.RESULT_FEATURE_UNSUPPORTED
    assert plant("get_entities", filters=EntityFilters(tags=TagsFilter(tags=["x"]))).result.result == unsupported
    assert plant("get_entities", filters=EntityFilters(bounds=Bounds(type=1))).result.result == unsupported
    assert plant("get_entities", filters=EntityFilters(filter="(")).result.result == Result.RESULT_OPERATION_FAILED
    assert plant("set_entity_state", entity="panda", set_acceleration=True).result.result == unsupported
    assert plant("reset_simulation", scope=64).result.result == unsupported
    assert plant("set_simulation_state", state=SimulationState(state=5)).result.result == 103
    assert plant("delete_entity", entity="panda").result.result == unsupported
    assert list(plant("get_entities").entities) == ["panda"]


def test_step_action_feeds_back_and_can_be_cancelled(plant):
    ros = plant.ros
    client = ActionClient(ros.node, SimulateSteps, "simulate_steps")
    ros.until(client.server_is_ready)
    feedback = []

    def send(steps):
        future = client.send_goal_async(
            SimulateSteps.Goal(steps=steps), feedback_callback=lambda m: feedback.append(m.feedback)
        )
        ros.until(future.done)
        return future.result()

    def result(goal):
        future = goal.get_result_async()
        ros.until(future.done)
        return future.result()

    done = result(send(50))
    assert (done.status, done.result.result.result) == (4, OK)  # succeeded
    # Feedback and results are topics of their own, which may overtake each other.
    ros.until(lambda: feedback and feedback[-1].completed_steps == 50, what="feedback on the last step")
    assert feedback[-1].remaining_steps == 0

    feedback.clear()
    goal = send(10_000_000)
    ros.until(lambda: len(feedback) >= 2)
    assert plant("get_simulation_state").state.state == SimulationState.STATE_PAUSED
    cancel = goal.cancel_goal_async()
    ros.until(cancel.done)
    done = result(goal)
    assert done.status == 5 and "Cancelled after" in done.result.result.error_message
    counts = [f.completed_steps for f in feedback]
    assert counts == sorted(counts) and counts[-1] < 10_000_000

    goal = send(10_000_000)  # a reset ends it too
    begun = len(feedback)
    ros.until(lambda: len(feedback) > begun, what="feedback on the steps")
    assert plant("reset_simulation").result.result == OK
    done = result(goal)
    assert done.status == 6 and "was reset" in done.result.result.error_message

    plant("set_simulation_state", state=SimulationState(state=SimulationState.STATE_PLAYING))
    done = result(send(5))
    assert done.status == 6 and done.result.result.result == Result.RESULT_INCORRECT_STATE


def test_quitting_ends_the_process(plant):
    response = plant("set_simulation_state", state=SimulationState(state=SimulationState.STATE_QUITTING))
    assert response.result.result == OK
    process = plant.ros.processes[0]  # last test: the plant is shared
    plant.ros.until(lambda: process.poll() is not None)
    assert process.returncode == 0
