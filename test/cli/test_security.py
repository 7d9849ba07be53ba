"""Keys for a graph: the files are what ROS and DDS Security expect, and say what the nodes' sources say."""

import fnmatch
import os
import shutil
import stat
import subprocess
import xml.etree.ElementTree as ElementTree
from datetime import UTC, datetime

import pytest

from cli.main import main
from cli.security_endpoints import endpoints
from cli.security_permissions import members
from nodes.framework import security
from nodes.table import NODES

x509 = pytest.importorskip("cryptography.x509")

#: the order in which OMG DDS Security 1.1, 9.4.1.3, has the parts of a permissions document
GRANT = ["subject_name", "validity", "allow_rule", "default"]


@pytest.fixture(scope="module")
def keystore(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys") / "store"
    assert main(["security", "create", str(folder), "--robot", "dxl_arm", "--namespace", "left"]) == 0
    return folder


def certificate(path):
    return x509.load_pem_x509_certificate(path.read_bytes())


def allowed(folder, what):
    """Topics that an enclave may publish or hear, by its permissions document."""
    root = ElementTree.parse(folder / "permissions.xml").getroot()
    return [topic.text for topic in root.iterfind(f"permissions/grant/allow_rule/{what}/topics/topic")]


def may(folder, what, topic):
    return any(fnmatch.fnmatchcase(topic, pattern) for pattern in allowed(folder, what))


def enclaves(keystore):
    return {f"/{path.parent.relative_to(keystore / 'enclaves')}".rstrip("."): path.parent
            for path in (keystore / "enclaves").rglob("cert.pem")}  # fmt: skip


# ---- files -------------------------------------------------------------------------------------------------------
def test_everybody_has_an_enclave(keystore):
    """The nodes of every launch file with their names in the graph, drivers in their namespaces, and the operator."""
    found = set(enclaves(keystore))
    assert {"/", "/left/adaptive_mpc", "/left/supervisor", "/left/sim_plant", "/left/recorder"} <= found
    assert {"/left/dynamixel", "/left/camera/camera", "/left/ft_sensor"} <= found
    assert "/left/stance_controller" not in found  # this robot's controller is another one
    for folder in enclaves(keystore).values():
        for name in ("identity_ca.cert.pem", "permissions_ca.cert.pem", "governance.p7s", "permissions.p7s", "key.pem"):
            assert (folder / name).is_file(), folder / name


def test_every_certificate_is_the_authoritys_and_names_its_enclave(keystore):
    authority = certificate(keystore / "public" / "identity_ca.cert.pem")
    authority.verify_directly_issued_by(authority)
    assert authority.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    for name, folder in enclaves(keystore).items():
        own = certificate(folder / "cert.pem")
        own.verify_directly_issued_by(authority)
        assert own.subject.rfc4514_string() == f"CN={name}"
        assert not own.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
        assert own.not_valid_before_utc < datetime.now(UTC) < own.not_valid_after_utc
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        key = load_pem_private_key((folder / "key.pem").read_bytes(), None)
        assert key.public_key() == own.public_key()


def test_private_keys_are_their_owners_alone(keystore):
    keys = [path for path in keystore.rglob("*key.pem") if not path.is_symlink()]
    assert len(keys) == len(enclaves(keystore)) + 1
    assert {stat.S_IMODE(path.stat().st_mode) for path in keys} == {0o600}


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl, which judges the signatures, is not installed")
def test_documents_are_signed_by_the_authority(keystore, tmp_path):
    def verify(signed, authority):
        out = tmp_path / "document.xml"
        words = ["openssl", "smime", "-verify", "-text", "-in", signed, "-CAfile", authority, "-out", out]
        return subprocess.run(words, capture_output=True).returncode == 0 and out.read_bytes().replace(b"\r\n", b"\n")

    authority = keystore / "public" / "permissions_ca.cert.pem"
    for folder in enclaves(keystore).values():
        assert verify(folder / "permissions.p7s", authority) == (folder / "permissions.xml").read_bytes()
        assert verify(folder / "governance.p7s", authority) == (keystore / "enclaves" / "governance.xml").read_bytes()
    forged = tmp_path / "forged.p7s"
    forged.write_bytes((folder / "permissions.p7s").read_bytes().replace(b"<default>DENY", b"<default>ALLOW"))
    assert verify(forged, authority) is False
    other = tmp_path / "other"
    assert main(["security", "create", str(other), "--robot", "cartpole"]) == 0
    assert verify(folder / "permissions.p7s", other / "public" / "ca.cert.pem") is False


def test_documents_have_the_standards_grammar(keystore):
    for name, folder in enclaves(keystore).items():
        root = ElementTree.parse(folder / "permissions.xml").getroot()
        (grant,) = root.iterfind("permissions/grant")
        assert root.tag == "dds" and [part.tag for part in grant] == GRANT
        assert grant.findtext("subject_name") == certificate(folder / "cert.pem").subject.rfc4514_string()
        assert grant.findtext("default") == "DENY" and grant.get("name") == name
        begin, end = (datetime.fromisoformat(grant.findtext(f"validity/not_{x}")) for x in ("before", "after"))
        assert begin < datetime.now(UTC).replace(tzinfo=None) < end
        assert [part.tag for part in grant.find("allow_rule")] == ["domains", "publish", "subscribe"]
    rule = ElementTree.parse(keystore / "enclaves" / "governance.xml").getroot().find("domain_access_rules/domain_rule")
    assert rule.findtext("allow_unauthenticated_participants") == "false"
    assert rule.findtext("enable_join_access_control") == "true"
    assert {part.text for part in rule.iter() if part.tag.endswith("protection_kind")} == {"ENCRYPT"}
    assert rule.findtext("topic_access_rules/topic_rule/enable_write_access_control") == "true"


# ---- who may do what ---------------------------------------------------------------------------------------------
def publishers(keystore, topic):
    return {name for name, folder in enclaves(keystore).items() if may(folder, "publish", topic)}


def test_only_the_supervisor_says_how_things_stand_and_only_the_controller_commands(keystore):
    assert publishers(keystore, "rt/left/supervisor/status") == {"/left/supervisor"}
    assert publishers(keystore, "rt/left/joint_command") == {"/left/adaptive_mpc"}
    assert publishers(keystore, "rt/left/refit/parameters") == {"/left/refit_worker"}
    assert publishers(keystore, "rr/left/stopReply") == {"/left/supervisor"}
    # what nobody in the graph says is the operator's, who may stop the robot as well, and so may the page with the buttons
    assert publishers(keystore, "rt/left/velocity_controller/commands") == {"/"}
    assert publishers(keystore, "rq/left/stopRequest") == {"/", "/left/view"}
    assert publishers(keystore, "rq/left/hand_overRequest") == {"/"}


def test_only_a_robot_that_is_teleoperated_has_the_bridge_which_says_what_the_operator_does():
    def bridges(robot):
        return [member for member in members(robot) if member.enclave == "/telepresence_bridge"]

    assert not bridges("panda")
    (bridge,) = bridges("avatar")
    assert {"rt/operator/sample", "rq/stopRequest", "rq/teleop/homeRequest"} <= set(bridge.publishes)
    assert {"rt/teleop/status", "rt/camera/*/image/compressed"} <= set(bridge.subscribes)
    assert not {"rt/joint_command", "rt/supervisor/lease", "rq/armRequest", "rq/hand_overRequest"} & set(
        bridge.publishes
    )


def test_a_wrists_camera_may_say_what_its_launch_file_calls_it_and_the_scan_may_hear_it():
    avatar = {member.enclave: member for member in members("avatar")}
    camera, scan = avatar["/texture_camera"], avatar["/texture_scan"]
    assert "rt/wrist_camera/aligned_depth_to_color/image_raw" in camera.publishes
    assert not any(name.startswith("rt/camera/color") for name in camera.publishes)
    assert {"rt/*/aligned_depth_to_color/image_raw", "rt/*/color/camera_info"} <= set(scan.subscribes)
    assert "rr/teleop/texture_scanReply" in scan.publishes
    assert not {"rt/joint_command", "rt/supervisor/lease"} & set(scan.publishes)
    assert not {"/texture_camera", "/texture_scan"} & {member.enclave for member in members("panda")}


@pytest.mark.parametrize(
    "robot, planner, action",
    [
        ("ur5e_scoop", "scooping", "scoop/execute"),
        ("panda_bucket", "excavation", "bucket/move"),
        ("panda_poker", "poking", "poke_arm/poke"),
    ],
)
def test_a_planner_may_ask_its_arm_and_hear_its_answer(robot, planner, action):
    (member,) = (member for member in members(robot) if member.enclave == f"/{planner}")
    assert f"rq/{action}/_action/send_goalRequest" in member.publishes
    assert {f"rr/{action}/_action/get_resultReply", f"rt/{action}/_action/feedback"} <= set(member.subscribes)


def test_nobody_but_the_operator_touches_another_namespace(keystore):
    for name, folder in enclaves(keystore).items():
        if name != "/":
            assert not may(folder, "publish", "rt/right/joint_command")
            assert not may(folder, "subscribe", "rt/right/joint_states")


def test_what_a_node_uses_is_allowed_by_its_name_in_the_graph(keystore):
    """Topics, services and actions, remapped as the launch files do it."""
    controller, camera = (enclaves(keystore)[f"/left/{name}"] for name in ("adaptive_mpc", "camera/camera"))
    assert may(controller, "subscribe", "rt/left/joint_states") and may(controller, "subscribe", "rt/left/clock")
    assert may(controller, "subscribe", "rq/left/run_episode/_action/send_goalRequest")
    assert may(controller, "publish", "rt/left/run_episode/_action/feedback")
    assert may(controller, "publish", "rq/left/refit/_action/send_goalRequest")
    assert not may(controller, "publish", "rt/left/run_info") and not may(controller, "publish", "rt/left/clock")
    assert may(camera, "publish", "rt/left/camera/camera/color/image_raw")
    assert not may(camera, "publish", "rt/left/camera/joint_states")
    assert may(enclaves(keystore)["/left/sim_plant"], "publish", "rt/left/tf")


@pytest.mark.parametrize("name", NODES)
def test_every_name_in_a_nodes_source_can_be_read(name):
    """A node with a name that cannot be is refused here, before a robot is."""
    assert endpoints(name).publishes >= {"diagnostics", "/rosout"}


def test_names_are_followed_through_helpers_loops_and_branches():
    assert {"~/set_dxl_torque", "~/scan"} <= endpoints("dynamixel").serves  # a loop over rows
    assert "joint_trajectory_controller/follow_joint_trajectory" in endpoints("dynamixel").executes  # LongAction
    assert "~/gripper_cmd" in endpoints("robotiq").executes  # GripperAction, whose name goes to LongAction
    assert "joint_states" in endpoints("force_torque").subscribes  # JointMotion
    assert {"joint_states", "~/joint_states", "/clock", "~/clock"} <= endpoints("sim_plant").publishes  # f"{own}..."
    assert "~/set_particles" in endpoints("adaptive_mpc").serves  # serve = node.create_service
    assert "hand/*/motor_targets" in endpoints("ability_hand").subscribes


# ---- the command -------------------------------------------------------------------------------------------------
def test_again_renews_permissions_and_keeps_keys(keystore):
    folder = enclaves(keystore)["/left/supervisor"]
    before = {name: (folder / name).read_bytes() for name in ("key.pem", "cert.pem", "permissions.p7s")}
    assert main(["security", "create", str(keystore), "--robot", "dxl_arm", "--namespace", "left"]) == 0
    after = {name: (folder / name).read_bytes() for name in before}
    assert [name for name in before if before[name] != after[name]] == ["permissions.p7s"]


def test_a_folder_of_something_else_and_a_robot_that_is_not_there_are_refused(tmp_path, capsys):
    (tmp_path / "thesis.tex").touch()
    assert main(["security", "create", str(tmp_path)]) == 2
    assert "expected a new folder, or a keystore" in capsys.readouterr().err
    assert os.listdir(tmp_path) == ["thesis.tex"]
    assert main(["security", "create", str(tmp_path / "new"), "--robot", "nobody"]) == 2
    assert "nobody" in capsys.readouterr().err and not (tmp_path / "new").exists()


def test_a_launch_that_could_not_be_guarded_is_refused(monkeypatch, keystore, tmp_path):
    def refused(**value):
        with pytest.raises(ValueError) as error:
            security.check_secure(value)
        return str(error.value)

    security.check_secure({})
    assert "needs keystore:=DIR" in refused(secure="true")
    assert "only used with secure:=true" in refused(keystore=str(keystore))
    monkeypatch.setattr(security, "middleware_lacks", lambda: "the middleware was built without security")
    assert "was built without security; leave it out" in refused(secure="true", keystore=str(keystore))
    monkeypatch.setattr(security, "middleware_lacks", lambda: "")
    assert "has no enclaves/governance.p7s" in refused(secure="true", keystore=str(tmp_path))
    security.check_secure({"secure": "true", "keystore": str(keystore)})


@pytest.mark.skipif(not security.middleware_lacks(), reason="the middleware here was built with security")
def test_without_a_middleware_for_it_a_secure_launch_is_one_sentence_and_exit_2(keystore, capsys):
    for file in ("sim.launch.py", "robot.launch.py", "drivers.launch.py"):
        assert main(["launch", file, "robot:=dxl_arm", "secure:=true", f"keystore:={keystore}"]) == 2
        out, err = capsys.readouterr()
        assert out == "" and err.count("\n") == 1 and "was built without security" in err


def test_each_node_is_told_its_enclave_and_all_are_told_the_keystore(keystore):
    value = {"secure": "true", "keystore": str(keystore), "namespace": "left"}
    told = security.variables(value)
    assert told["ROS_SECURITY_STRATEGY"] == "Enforce" and told["ROS_SECURITY_KEYSTORE"] == str(keystore)
    assert security.enclave_arguments(value, "camera", "camera") == ["--enclave", "/left/camera/camera"]
    assert {member.enclave for member in members("dxl_arm", "left")} == set(enclaves(keystore))
    open_ = {"secure": "false", "keystore": "", "namespace": "left"}
    assert security.variables(open_) == {} and security.enclave_arguments(open_, "camera") == []
