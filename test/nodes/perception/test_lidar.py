"""The node `lidar` on a chain from the emulated scanner on: device, driver, /scan, estimates; and what it says where nothing can be found."""

import math
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("rclpy")

from action_msgs.msg import GoalStatus
from rclpy.action import ActionClient
from rclpy.qos import QoSProfile
from refit_interfaces.action import CalibrateScanner, LocalizeScan, TrackObject
from refit_interfaces.msg import ScanEstimate
from refit_interfaces.srv import SetScanScene, SimulateScans
from sensor_msgs.msg import LaserScan, PointCloud2
from std_msgs.msg import Float32MultiArray
from visualization_msgs.msg import MarkerArray

from hardware.emulation.process import EmulatorProcess
from nodes.framework.qos import LATCHED, LEDGER, SENSOR
from nodes.perception.lidar_config import LidarConfig
from nodes.perception.lidar_page import page_of_goal
from sim_core.lidar.files import scene_of_file
from sim_core.lidar.measured import measured_ranges, seen_by
from sim_core.lidar.scan import Lidar
from sim_core.lidar.search import flat, locate

DATA = Path(__file__).resolve().parents[3] / "data" / "lidar"
POSE = flat()


class Chain:
    """The graph of this file: everything is pressed on it."""

    def __init__(self, ros, emulator):
        self.ros, self.emulator = ros, emulator
        self.scans = ros.listen(LaserScan, "scan", QoSProfile(depth=2000, reliability=SENSOR.reliability))
        self.estimates = ros.listen(ScanEstimate, "lidar/estimate", LEDGER)
        self.scenes = ros.listen(MarkerArray, "lidar/scene", LATCHED)
        self.returns = ros.listen(PointCloud2, "lidar/returns", LATCHED)
        self.phases = ros.listen(Float32MultiArray, "lidar/phases", LATCHED)
        kinds = {"localize": LocalizeScan, "track_object": TrackObject, "calibrate": CalibrateScanner}
        self.kinds, self.clients = (
            kinds,
            {name: ActionClient(ros.node, kind, f"lidar/{name}") for name, kind in kinds.items()},
        )

    def begin(self, name, feedback=None, **fields):
        client = self.clients[name]
        self.ros.until(client.server_is_ready, what=name)
        future = client.send_goal_async(
            self.kinds[name].Goal(**fields),
            feedback_callback=lambda m: feedback is not None and feedback.append(m.feedback),
        )
        self.ros.until(future.done, what="the goal's answer")
        return future.result()

    def end(self, handle):
        assert handle.accepted
        future = handle.get_result_async()
        self.ros.until(future.done, what="the result")
        return future.result()

    def do(self, name, feedback=None, **fields):
        return self.end(self.begin(name, feedback, **fields)).result

    def scene(self, **fields):
        return self.ros.call(SetScanScene, "lidar/set_scene", **fields)


@pytest.fixture(scope="module")
def chain(shared_ros, tmp_path_factory):
    words = ("--scene", DATA / "mirror.yaml", "--no-codes", "--noise", "0.3")
    with EmulatorProcess("urg", *words, program="nodes.plant.lidar_emulator") as emulator:
        driver = shared_ros.start("urg", serial_port=str(emulator.link))
        folder = tmp_path_factory.mktemp("lidar")
        node = shared_ros.start("lidar", scene=str(DATA / "mirror.yaml"), directory=str(folder), patience=20.0)
        shared_ros.up("urg")
        shared_ros.up("lidar")
        found = Chain(shared_ros, emulator)
        found.folder = folder
        shared_ros.until(lambda: len(found.scans) > 2, what="scans")
        yield found
        for client in found.clients.values():
            client.destroy()
        for process in (node, driver):
            code, _, output = shared_ros.finish(process)
            assert code == 0 and "Traceback" not in output, output


def test_the_page_names_everything(documentation):
    assert documentation.missing("lidar.md", LidarConfig, "nodes/perception/lidar.py") == []


def phases(chain):
    """Of the newest message (2, beams)."""
    return np.reshape(chain.phases[-1].data, (2, -1)) if chain.phases else np.zeros((2, 682))


def test_a_scanner_is_found_with_the_numbers_of_the_same_fit_offline(chain):
    steps = []
    found = chain.do("localize", steps, guess=[-0.25, 0.05, 0.2], report=True)
    assert found.outcome == LocalizeScan.Result.FOUND, found.message
    values = dict(zip(found.estimate.names, found.estimate.values))
    assert [values[n] for n in POSE] == pytest.approx([-0.3, 0.0, 0.0], abs=5e-3)
    assert found.estimate.beams > 650 and found.estimate.residual < 3e-3 and not found.estimate.lost
    page = Path(found.report)
    assert page.parent == chain.folder and page.read_text().count("<figure") >= 2
    # Each stage of softened outlines has a cost of its own, and another start may be the best one next: no order between neighbours.
    assert steps and steps[-1].iteration >= steps[0].iteration and steps[-1].cost <= steps[0].cost
    assert list(steps[-1].values) == pytest.approx([values[name] for name in POSE], abs=5e-3)
    deviation = np.sqrt(np.diag(np.reshape(found.estimate.covariance, (3, 3))))
    assert (deviation > 0).all() and (deviation < 5e-3).all()
    # The same scan, as a bag keeps it.
    stamp = found.estimate.header.stamp
    chain.ros.until(lambda: any(m.header.stamp == stamp for m in chain.scans), what="the scan that was fitted")
    scan = next(m for m in chain.scans if m.header.stamp == stamp)
    settings = seen_by(scan.angle_min, scan.angle_increment, len(scan.ranges))
    ranges = measured_ranges(
        scan.ranges, scan.range_min, scan.range_max, scan.angle_min, scan.angle_increment, settings
    )
    scene, given = scene_of_file(DATA / "mirror.yaml")
    again = locate(
        Lidar(scene, settings, given), ranges, dict(zip(POSE, (-0.25, 0.05, 0.2))), options=LidarConfig().search()
    )
    assert list(again.values.values()) == list(found.estimate.values)
    assert again.fit.covariance.ravel().tolist() == list(found.estimate.covariance)
    assert chain.estimates[-1].header.frame_id == "world" and len(chain.scenes[-1].markers) == 3
    assert chain.returns[-1].width > 3 * 600
    # The phases that are expected from there are those of the ranges (modulo either frequency's span).
    expected = Lidar(scene, settings, given).scan(again.values)
    chain.ros.until(lambda: np.allclose(phases(chain), expected.phase.T, atol=1e-5, equal_nan=True), what="the phases")
    rows, beams = chain.phases[-1].layout.dim
    assert (rows.label, rows.size, beams.size) == ("46.55 MHz, 53.2 MHz", 2, 682)


def test_a_page_that_cannot_be_written_is_said_and_nothing_else_is_lost(tmp_path):
    scene, given = scene_of_file(DATA / "mirror.yaml")
    model = Lidar(scene, values=given)
    ranges = model.scan().range
    found = locate(model, ranges, dict(zip(POSE, (-0.28, 0.02, 0.05))))
    (tmp_path / "file").write_text("in the way")
    page, why = page_of_goal(tmp_path / "file", 1.5, model, ranges[None], found)
    assert page == "" and "file" in why
    # What stands nowhere has a page, too: a surface that is looked for, and a scan that says nothing.
    for sought, scan in (
        (locate(model, ranges, {"wall.albedo": 0.5}), ranges),
        (locate(model, ranges * np.nan, given), ranges * np.nan),
    ):
        page, why = page_of_goal(tmp_path, 2.5, model, scan[None], sought)
        assert why == "" and Path(page).is_file()


def test_a_mirror_is_followed_and_missed_where_it_is_gone(chain):
    chain.scene(names=list(POSE), values=[-0.3, 0.0, 0.0])
    heard = []
    handle = chain.begin("track_object", heard, body="mirror", patience=3)
    assert handle.accepted
    chain.ros.until(lambda: len(heard) > 1 and not heard[-1].estimate.lost, what="the mirror")
    for x in (0.51, 0.53):
        chain.emulator.set(values={"mirror.x": x, "mirror.yaw": 0.35})
        chain.ros.until(lambda x=x: abs(heard[-1].estimate.values[0] - x) < 6e-3, what=f"the mirror at {x}")
    last = heard[-1].estimate
    assert last.names == ["mirror.x", "mirror.y", "mirror.yaw"]
    assert last.values[2] == pytest.approx(0.35, abs=math.radians(1.0))
    chain.emulator.set(values={"mirror.x": 5.0})
    result = chain.end(handle).result
    assert result.outcome == TrackObject.Result.LOST and "3 scans in a row" in result.message
    assert result.tracked >= 3 and result.missed >= 3 and result.estimate.lost
    assert list(result.estimate.values) == pytest.approx([0.53, 0.05, 0.35], abs=0.03)  # those of before
    chain.emulator.set(values={"mirror.x": 0.5, "mirror.yaw": 0.3})
    assert chain.scene(file=str(DATA / "mirror.yaml")).success


def test_a_diode_is_learnt_and_what_nothing_depends_on_is_not(chain):
    chain.emulator.set(values={"diode.b": -0.05, "diode.c": 0.02})
    chain.ros.spin(0.5)
    learnt = chain.do("calibrate", names=["diode.b", "diode.c"], scans=6, apply=True)
    assert learnt.outcome == CalibrateScanner.Result.DONE, learnt.message
    assert list(learnt.estimate.values) == pytest.approx([-0.05, 0.02], abs=0.01)
    assert learnt.after < 0.7 * learnt.before
    assert str(chain.folder) in learnt.file and "diode.b" in Path(learnt.file).read_text()
    present = chain.scene()
    assert dict(zip(present.names, present.present))["diode.b"] == learnt.estimate.values[0]
    too_many = chain.do("calibrate", names=["diode.c", "mirror.roughness"], scans=2)
    assert too_many.outcome == CalibrateScanner.Result.UNDETERMINED and "mirror.roughness" in too_many.message
    chain.emulator.set(values={"diode.b": 0.0, "diode.c": 0.0})
    chain.scene(file=str(DATA / "mirror.yaml"))


def test_simulated_scans_are_the_model_s(chain):
    answer = chain.ros.call(
        SimulateScans, "lidar/simulate", names=["sensor.x", "sensor.yaw"], values=[-0.3, 0.0, 0.1, 0.2]
    )
    assert answer.success and len(answer.scans) == 2 and answer.duration > 0.0
    scan = answer.scans[1]
    assert (len(scan.ranges), scan.angle_min) == (682, pytest.approx(chain.scans[-1].angle_min))
    scene, given = scene_of_file(DATA / "mirror.yaml")
    settings = seen_by(chain.scans[-1].angle_min, chain.scans[-1].angle_increment, 682)
    truth = Lidar(scene, settings, given).scan({"sensor.x": 0.1, "sensor.yaw": 0.2}).range
    assert np.array(scan.ranges) == pytest.approx(np.where(np.isnan(truth), np.inf, truth), abs=1e-6)
    refused = chain.ros.call(SimulateScans, "lidar/simulate", names=["sensor.x"], values=[])
    assert not refused.success and "1 to 1000 scans" in refused.message


def test_what_cannot_be_is_refused_or_has_its_outcome(chain, tmp_path):
    assert not chain.begin("localize", guess=[0.0]).accepted
    assert not chain.begin("localize", names=["sensor.height"]).accepted
    assert not chain.begin("track_object", body="unicorn").accepted
    outside = chain.do("localize", guess=[50.0, 0.0, 0.0])
    assert outside.outcome == LocalizeScan.Result.LOST and "outside of the scene" in outside.message
    wrong = chain.do("localize", guess=[0.6, 0.3, 2.0])
    assert wrong.outcome == LocalizeScan.Result.DISAGREES and "does not fit" in wrong.message
    assert not wrong.estimate.lost
    empty = tmp_path / "empty.yaml"
    empty.write_text("bodies: []\n")
    strange = tmp_path / "strange.yaml"
    strange.write_text("materials: {}\nbodies:\n  - {name: walls, room: [1, 1, 1], material: fog}\n")
    for fields, said in (
        ({"file": str(empty)}, "at least one body"),
        ({"file": str(strange)}, "'fog', which is none"),
        ({"file": str(tmp_path / "none.yaml")}, "nothing is there"),
        ({"names": ["sensor.x"], "values": [math.nan]}, "finite"),
        ({"names": ["sensor.q"], "values": [0.0]}, "no parameter"),
    ):
        answer = chain.scene(**fields)
        assert not answer.success and said in answer.message
        assert answer.file.endswith("mirror.yaml") and "mirror.x" in answer.names  # nothing has changed


def test_a_goal_can_be_called_back(chain):
    handle = chain.begin("track_object", body="mirror")
    assert not chain.begin("localize").accepted  # one at a time
    cancelling = handle.cancel_goal_async()
    chain.ros.until(cancelling.done, what="the cancellation")
    ended = chain.end(handle)
    assert ended.status == GoalStatus.STATUS_CANCELED
    assert ended.result.outcome == TrackObject.Result.CANCELLED


def test_a_scanner_that_falls_silent_and_another_one(chain):
    diagnostics = chain.ros.diagnostics("lidar")
    other = chain.ros.node.create_publisher(LaserScan, "scan", 10)
    message = LaserScan(
        angle_min=-1.0, angle_max=1.0, angle_increment=0.02, range_min=0.02, range_max=5.0, ranges=[1.0] * 101
    )
    try:
        chain.ros.until(lambda: other.get_subscription_count() > 0, what="the node's subscription")

        def said():
            other.publish(message)
            return diagnostics.said("682 beams is expected")

        chain.ros.until(said, what="the complaint")
    finally:
        chain.ros.node.destroy_publisher(other)
    chain.emulator.inject("silence")
    chain.ros.set_parameter("lidar", "patience", 1.0)
    chain.ros.spin(1.0)
    nothing = chain.do("localize")
    assert nothing.outcome == LocalizeScan.Result.NO_SCAN and nothing.message
    chain.emulator.clear()
    chain.ros.set_parameter("lidar", "patience", 20.0)
