"""Bodies by name and by file."""

import numpy as np
import pytest
import trimesh

from sim_core.elastic.bodies import BODIES, load_body
from sim_core.elastic.rigid_body import sample_mesh

pytestmark = pytest.mark.pure


def test_every_name_is_a_body():
    for name in BODIES:
        assert load_body(name).name == name


def test_a_mesh_file_is_sampled_as_published(tmp_path):
    box = trimesh.creation.box((0.02, 0.03, 0.01))
    box.export(tmp_path / "block.stl")
    body = load_body(str(tmp_path / "block.stl"))
    assert body.name == "block"
    np.testing.assert_allclose(np.ptp(body.points, axis=0), [0.02, 0.03, 0.01])
    assert len(body.points) == pytest.approx(len(sample_mesh(box).points), rel=0.1)


def test_what_is_no_body_is_refused(tmp_path):
    with pytest.raises(ValueError, match="no body 'spoon'; there are point, line"):
        load_body("spoon")
    with pytest.raises(ValueError, match="no body ''"):
        load_body("")
    (tmp_path / "text.stl").write_text("nothing")
    with pytest.raises(ValueError, match="text.stl"):
        load_body(str(tmp_path / "text.stl"))
