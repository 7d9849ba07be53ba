"""Where the files are that a robot's description names."""

import pytest

from sim_core.host.resource_path import resource_path


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A description in a package, beside another package, and two of an installation."""
    monkeypatch.delenv("ROS_PACKAGE_PATH", raising=False)
    monkeypatch.delenv("AMENT_PREFIX_PATH", raising=False)
    for name in (
        "ws/arm_description/urdf/arm.urdf",
        "ws/arm_description/meshes/link 1.stl",
        "ws/gripper/meshes/finger.stl",
        "ws/checked-out-as-this/meshes/base.stl",
        "opt/share/camera/meshes/lens.stl",
        "old/camera/meshes/lens.stl",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "ws/checked-out-as-this/package.xml").write_text("<package><name> true_name </name></package>")
    return tmp_path


@pytest.mark.parametrize(
    "uri, beside, found",
    [
        ("package://arm_description/meshes/link%201.stl", "ws/arm_description/urdf", "ws/arm_description/meshes/link 1.stl"),
        ("model://arm_description/meshes/link%201.stl", "ws/arm_description/urdf", "ws/arm_description/meshes/link 1.stl"),
        ("package://gripper/meshes/finger.stl", "ws/arm_description/urdf", "ws/gripper/meshes/finger.stl"),
        ("package://true_name/meshes/base.stl", "ws/checked-out-as-this/meshes", "ws/checked-out-as-this/meshes/base.stl"),
        ("../meshes/link 1.stl", "ws/arm_description/urdf", "ws/arm_description/meshes/link 1.stl"),
        ("package://gripper/meshes/no.stl", "ws/arm_description/urdf", None),
        ("package://nowhere/meshes/finger.stl", "ws/arm_description/urdf", None),
        ("../meshes", "ws/arm_description/urdf", None),  # a folder is no file
        ("", "ws/arm_description/urdf", None),
    ],
)  # fmt: skip
def test_packages_are_found_upwards_and_beside(place, uri, beside, found):
    path = resource_path(uri, place / beside)
    assert (path and path.resolve()) == (found and place / found)


def test_packages_are_found_where_they_are_installed(place, monkeypatch):
    uri, beside = "package://camera/meshes/lens.stl", place / "ws/arm_description/urdf"
    assert resource_path(uri, beside) is None
    monkeypatch.setenv("AMENT_PREFIX_PATH", f"/nowhere:{place / 'opt'}")
    assert resource_path(uri, beside) == place / "opt/share/camera/meshes/lens.stl"
    for variable in (place / "old", place / "old/camera"):
        monkeypatch.setenv("ROS_PACKAGE_PATH", str(variable))
        assert resource_path(uri, beside) == place / "old/camera/meshes/lens.stl"


def test_a_file_is_taken_as_it_is(place):
    file = place / "ws/arm_description/meshes/link 1.stl"
    assert resource_path(file.as_uri(), place) == resource_path(str(file), place) == file
    assert resource_path("file:///no/such/file.stl", place) is None
