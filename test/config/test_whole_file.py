"""Files that exist whole or not at all."""

import pytest

from config.whole_file import whole_file


def test_takes_its_place_at_the_end(tmp_path):
    path = tmp_path / "new" / "file"
    with whole_file(path) as partial:
        partial.write_text("all of it")
        assert not path.exists()
    assert path.read_text() == "all of it" and list(path.parent.iterdir()) == [path]


def test_an_error_leaves_what_was_there(tmp_path):
    path = tmp_path / "file"
    path.write_text("before")
    with pytest.raises(RuntimeError), whole_file(path) as partial:
        partial.write_text("half of")
        raise RuntimeError
    assert path.read_text() == "before" and list(tmp_path.iterdir()) == [path]
