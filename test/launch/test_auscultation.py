"""The exam's whole graph, in lock-step: scan, registration, placement, sound and planning, on a good day and on bad ones."""

import json
from pathlib import Path

import launch_pytest
import numpy as np
import pytest
from launch import LaunchDescription
from launched import SPARING, Processes, include, until
from rcl_interfaces.srv import SetParameters
from rclpy.parameter import Parameter
from refit_interfaces.action import PlaceAndRecord, RunExam
from refit_interfaces.msg import AuscultationReading, StethoscopeContact
from refit_interfaces.srv import RegisterPatient
from std_msgs.msg import String

from nodes.framework.qos import LATCHED, LEDGER, STATE
from sim_core.auscultation.examination import REPEATS, replay
from sim_core.auscultation.simulated_patient import SimulatedPatient
from sim_core.plant.patient import body_pose

PATIENT, REGION = 4, "heart/front/aortic"


@launch_pytest.fixture(scope="module")
def graph(domain, tmp_path_factory):
    settings = tmp_path_factory.mktemp("auscultation") / "settings.yaml"
    settings.write_text(SPARING)
    processes = Processes()
    exam = include(
        "auscultation.launch.py",
        patient=PATIENT,
        readings=1,
        duration=5.0,
        lockstep=True,
        real_time_factor=0.5,  # until somebody moves
        params_file=settings,
        directory=tmp_path_factory.mktemp("exams"),
    )
    return LaunchDescription([*processes.handlers(), exam]), processes


@pytest.fixture(scope="module")
def heard(probe):
    """What is said of the exam, and the truth about the contact."""
    return {
        "readings": probe.watch(AuscultationReading, "auscultation/reading", LEDGER),
        "states": probe.watch(String, "auscultation/exam", LATCHED),
        "contacts": probe.watch(StethoscopeContact, "sim_plant/stethoscope", STATE),
    }


def set_fault(probe, node, fault):
    request = SetParameters.Request(parameters=[Parameter("fault", value=fault).to_parameter_msg()])
    answer = probe.call(SetParameters, f"{node}/set_parameters", request).results[0]
    assert answer.successful, answer.reason


def register(probe):
    return probe.call(RegisterPatient, "auscultation/register_patient", RegisterPatient.Request(side="front"))


@pytest.mark.launch(fixture=graph)
def test_a_camera_without_depth_registers_nobody(graph, probe):
    probe.wait_active("sim_plant", "placement", "supervisor", "sim_camera", "stethoscope", "auscultation")
    set_fault(probe, "sim_camera", "no_depth")
    answer = register(probe)
    assert not answer.success and "does the camera see depth" in answer.message
    set_fault(probe, "sim_camera", "")
    answer = register(probe)
    assert answer.success, answer.message
    axes, origin = body_pose()
    true = {
        "/".join(r): origin + axes @ place for r, place in SimulatedPatient(PATIENT).torso["front"].landmarks.items()
    }
    errors = [np.linalg.norm(true[name] - [p.x, p.y, p.z]) for name, p in zip(answer.regions, answer.landmarks)]
    assert len(errors) == 8 and np.mean(errors) < 0.0173


@pytest.mark.launch(fixture=graph)
def test_a_silent_microphone_ends_the_exam_which_goes_on_when_it_is_mended(graph, probe, heard):
    probe.set_pace(0.0)
    set_fault(probe, "stethoscope", "silent")
    goal = RunExam.Goal(regions=[REGION])
    found = probe.result(probe.send_goal(RunExam, "auscultation/run_exam", goal))
    assert not found.success and "silent" in found.message and found.checkpoint in found.message
    until(lambda: len(heard["readings"]) == REPEATS, "the readings are told")
    assert all(np.isnan(reading.score) for reading in heard["readings"][:])
    assert len({reading.candidate for reading in heard["readings"][:]}) == 1  # the place is not to blame
    set_fault(probe, "stethoscope", "")
    found = probe.result(probe.send_goal(RunExam, "auscultation/run_exam", RunExam.Goal(resume=found.checkpoint)))
    assert found.success, found.message
    assert list(found.regions) == [REGION] and Path(found.files[0]).stat().st_size > 5 * 44100 * 2
    assert 0.0 <= found.scores[0] <= 1.0 and found.states[0] in ("heard", "exhausted")
    last = heard["readings"][-1]
    assert last.outcome == PlaceAndRecord.Result.RECORDED and 6.0 < last.mean_force < 8.0
    state = json.loads(heard["states"].wait(lambda m: len(json.loads(m.data)["trials"]) == REPEATS + 1).data)
    assert all(decision.agrees for decision in replay(state))
    assert max(contact.force for contact in heard["contacts"][:]) < 15.0


@pytest.mark.launch(fixture=graph, shutdown=True)
def test_it_ends_well(graph):
    graph[1].assert_ended_well()
