"""Tables in place of bags."""

import numpy as np
import pytest

from recording import BagError, CsvRecording, open_recording


def write(path, text):
    path.write_text(text)
    return path


def test_columns_by_name_in_any_order(tmp_path):
    table = write(
        tmp_path / "a.csv",
        "# a comment\nb.position, t, a.position, a.velocity, b.velocity, a.effort\n"
        "1, 0.0, 10, 100, 7, 5\n2, 0.1, 20, 200, 8, 6\n3, 0.2, 30, 300, 9, 7\n",
    )
    series = open_recording(table).joint_states(["a", "b"])
    np.testing.assert_array_equal(series.t, [0.0, 0.1, 0.2])
    np.testing.assert_array_equal(series.q, [[10, 1], [20, 2], [30, 3]])
    np.testing.assert_array_equal(series.v[:, 1], [7, 8, 9])
    np.testing.assert_array_equal(series.effort, [[5, 0], [6, 0], [7, 0]])  # b has no motor
    assert series.time_jumps().size == 0


def test_velocities_that_are_missing_are_central_differences(tmp_path):
    t = np.arange(9) * 0.1
    rows = "\n".join(f"{s:.3f},{s * s:.6f}" for s in t)
    series = CsvRecording(write(tmp_path / "a.csv", f"t,a.position\n{rows}\n")).joint_states(["a"])
    np.testing.assert_allclose(series.v[1:-1, 0], 2 * t[1:-1], atol=1e-6)
    assert not series.effort.any()


@pytest.mark.parametrize(
    "text, sentence",
    [
        ("", "header"),
        ("a,b\n1,2\n3,4\n", "'t'"),
        ("t,a.position\n0,1\n1\n", "row 3"),
        ("t,a.position\n0,x\n1,2\n", "numbers only"),
    ],
)
def test_what_is_no_table_is_one_sentence(tmp_path, text, sentence):
    with pytest.raises(BagError, match=sentence):
        CsvRecording(write(tmp_path / "a.csv", text))


def test_a_missing_joint_or_file_is_named(tmp_path):
    with pytest.raises(BagError, match="b.position"):
        CsvRecording(write(tmp_path / "a.csv", "t,a.position\n0,1\n1,2\n")).joint_states(["a", "b"])
    with pytest.raises(BagError, match="cannot be read"):
        CsvRecording(tmp_path / "none.csv")
