"""What the experiments of auscultation stand on: bodies, methods, and an arm that listens."""

import numpy as np
import pytest

from experiments.auscultation.auscultation_bo import ALL, Job, listened
from experiments.auscultation.auscultation_exam import Arm, Examined, Skin
from experiments.auscultation.auscultation_patients import FIRST, Patient, tried
from sim_core.auscultation.regions import REGIONS
from sim_core.auscultation.simulated_patient import SimulatedPatient


@pytest.mark.parametrize("model", ["zero", "spar", ALL])
def test_with_exact_readings_more_of_them_are_never_worse(model):
    curve = listened(Job(3, model, "EI", 10, 0.0))
    assert len(curve) == 10 and 0.2 < curve[0] <= curve[-1] <= 0.75
    if model == "spar":
        assert curve == sorted(curve)
    assert curve == listened(Job(3, model, "EI", 10, 0.0)), "the same job, the same result"


def test_all_methods_meet_the_same_body():
    found = {method: tried((FIRST, method)) for method in ("BO", "RO", "DT")}
    assert all(set(one.marks) == set(REGIONS) for one in found.values())
    assert found["RO"].readings == 12 <= found["BO"].readings <= 48
    first, second = Patient(FIRST), Patient(FIRST)
    region = next(iter(REGIONS))
    assert (first.landmarks[region] == second.landmarks[region]).all()
    assert first.listen(region, np.zeros(2)) == second.listen(region, np.zeros(2))


def test_the_skin_is_the_torso_s():
    """Its mesh's vertices lie on it, and its normals are theirs."""
    torso = SimulatedPatient(FIRST).torso["front"]
    skin = Skin(torso)
    for k in np.flatnonzero(torso.normals[:, 2] > 0.3)[::200]:
        point, normal = skin.under(torso.vertices[k] + [0.0, 0.0, 0.02])
        assert np.allclose(point, torso.vertices[k], atol=1e-9) and np.allclose(normal, torso.normals[k], atol=1e-9)
    with pytest.raises(ValueError, match="no skin under"):
        skin.under(np.array([1.0, 0.0, 0.0]))


def test_the_arm_listens_where_it_is_told():
    """At a landmark of the body, well held, and far from every one; the estimate is near the truth at both."""
    region = ("heart", "front", "tricuspid")
    record = Examined("RO")
    arm = Arm(FIRST + 1, record)
    registration = arm.scan("front")
    assert np.mean(record.landmarks) < 0.0173
    places = np.array(registration.project(registration.landmarks[region])), np.array([-0.1, -0.1])
    near, far = (arm.read(region, *registration.deproject(place)) for place in places)
    assert near[1] > far[1] + 0.2
    assert max(abs(near[0] - near[1]), abs(far[0] - far[1])) < 0.2
    assert (record.readings, record.failures, record.steady) == (2, 0, 1.0) and 7.0 < record.peak < 14.0
