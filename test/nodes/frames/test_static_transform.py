"""The node that publishes a calibrated mount, from the very file that `refit calibrate` writes."""

import numpy as np
import pytest

pytest.importorskip("rclpy")

from tf2_msgs.msg import TFMessage

from identification.calibrate.parameter_files import static_transform
from nodes.frames.static_transform import StaticTransformConfig
from nodes.frames.transforms import TransformBuffer
from nodes.framework.qos import LATCHED

X = np.array([[0.0, -1.0, 0.0, 0.1], [1.0, 0.0, 0.0, -0.2], [0.0, 0.0, 1.0, 0.3], [0.0, 0.0, 0.0, 1.0]])


def test_a_written_file_becomes_a_transform_that_late_joiners_hear(ros, tmp_path):
    file = tmp_path / "static_transform.yaml"
    file.write_text(static_transform("base_link", "laser", X, "Pose of laser."))
    process = ros.start("static_transform", "-r", "__node:=laser_mount", "--params-file", str(file))
    ros.up("laser_mount")
    heard = ros.listen(TFMessage, "/tf_static", LATCHED)
    ros.until(lambda: heard, what="the transform")
    transforms = TransformBuffer()
    transforms.add_static(heard[-1])
    np.testing.assert_allclose(transforms.lookup("base_link", "laser", 0.0), X, atol=1e-6)
    code, _, output = ros.finish(process)
    assert code == 0 and "Traceback" not in output, output


def test_frames_that_cannot_be_are_refused():
    with pytest.raises(ValueError, match="name two different frames"):
        StaticTransformConfig(frame_id="base_link", child_frame_id="base_link")
    with pytest.raises(ValueError, match="has length 2"):
        StaticTransformConfig(frame_id="base_link", child_frame_id="laser", rotation_w=2.0)


def test_page_names_everything(documentation):
    assert documentation.missing("static_transform.md", StaticTransformConfig, "nodes/frames/static_transform.py") == []
