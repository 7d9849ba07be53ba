"""Repair of the include paths that the wheels' builder left behind."""

from cli.ros_wheels import repair, repaired

BROKEN = (
    'set_target_properties(x PROPERTIES\n  INTERFACE_INCLUDE_DIRECTORIES "/opt/python/cp312-cp312/include/python3.12;'
    '/opt/python/cp312-cp312/lib/python3.12/site-packages/numpy/_core/include"\n)\n'
)
FIXED = 'set_target_properties(x PROPERTIES\n  INTERFACE_INCLUDE_DIRECTORIES "/py/include;/np\\1/include"\n)\n'


def test_both_paths_are_rewritten_literally():
    assert repaired(BROKEN, "/py/include", "/np\\1/include") == FIXED


def test_older_numpy_layout():
    text = "/opt/python/cp311-cp311/lib/python3.11/site-packages/numpy/core/include"
    assert repaired(text, "/p", "/n") == "/n"


def test_repair_is_idempotent_and_reports_what_it_does_not_know(tmp_path):
    folder = tmp_path / "share" / "std_msgs" / "cmake"
    folder.mkdir(parents=True)
    (folder / "export.cmake").write_text(BROKEN)
    (folder / "strange.cmake").write_text("/opt/python/cp311-cp311/lib/libpython.a")
    (folder / "fine.cmake").write_text("set(a b)")
    changed, left = repair(tmp_path, "/p", "/n")
    assert [path.name for path in changed] == ["export.cmake"] and [path.name for path in left] == ["strange.cmake"]
    assert repair(tmp_path, "/p", "/n")[0] == []
