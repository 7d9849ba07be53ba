"""A recorded exam: read from a bag and from its own file, decided again, shown, and refused where there is none."""

import json

import numpy as np
import pytest

from cli.main import main
from hardware.audio.pcm import from_float, sample_format
from hardware.audio.wav import WavRecording
from identification.exam.record import TOPIC, read_exam
from recording import BagWriter
from recording.message_types import typestore
from sim_core.auscultation.depth_view import depth_view
from sim_core.auscultation.examination import Examination, Fault, Trial, parse_regions
from sim_core.auscultation.registration import register
from sim_core.auscultation.simulated_patient import SimulatedPatient

pytestmark = pytest.mark.pure

RATE = 8000


@pytest.fixture(scope="module")
def states(tmp_path_factory):
    """What an exam said of itself: at the begin, and after each trial."""
    folder = tmp_path_factory.mktemp("sounds")
    patient = SimulatedPatient(3)
    torso, field = patient.torso["front"], patient.field["front"]
    registration = register(depth_view(torso, width=90, height=90), np.array([0.0, 0.0, 0.9]))
    examination = Examination.begin(registration, parse_regions(["heart/front/aortic", "heart/front/mitral"]))
    said = [examination.state()]
    while (target := examination.ask()) is not None:
        visit, number = target.visit, len(examination.trials)
        trial = Trial(visit.region, visit.suggestion.index, fault=Fault.PLACE, message="out of reach")
        if number != 1:
            sound = field.listen(visit.suggestion.place, rate=float(RATE), seed=number).sound
            form = sample_format("S16LE")
            wav = WavRecording(folder / f"{number}.wav", RATE, 1, form, len(sound))
            wav.add(from_float(sound, form).tobytes(), 0)
            wav.close()
            score = 0.3 + 0.05 * number
            trial = Trial(visit.region, visit.suggestion.index, score, file=str(wav.path), force=(6.8, 7.0, 7.2))
        examination.settle(target, trial)
        said.append(examination.state())
    return json.loads(json.dumps(said))


def bag_of(folder, texts):
    with BagWriter(folder) as bag:
        bag.add_topic(f"/{TOPIC}", "std_msgs/msg/String")
        types = typestore("std_msgs/msg/String")
        for number, text in enumerate(texts):
            message = types.types["std_msgs/msg/String"](data=text)
            bag.write(f"/{TOPIC}", 10**9 * (1 + number), bytes(types.serialize_cdr(message, "std_msgs/msg/String")))
    return folder


def test_a_bag_is_enough_to_decide_an_exam_again(states, tmp_path):
    record = read_exam(bag_of(tmp_path / "bag", map(json.dumps, states)))
    assert record.agrees and len(record.decisions) == len(states) - 1
    assert [told.score for told in record.told] == [t["score"] for t in states[-1]["trials"] if t["score"] is not None]
    for region, (sound, score) in record.recordings().items():
        assert score == record.examination.handed_over(region).score and np.abs(sound).max() > 1e-3


def test_the_file_of_an_exam_says_the_same_as_its_bag(states, tmp_path):
    file = tmp_path / "exam.json"
    file.write_text(json.dumps(states[-1]))
    assert (
        read_exam(file).examination.state()
        == read_exam(bag_of(tmp_path / "bag", [json.dumps(states[-1])])).examination.state()
    )


def test_the_command_shows_it_and_tells_by_its_exit_code(states, tmp_path, capsys):
    file = tmp_path / "exam.json"
    file.write_text(json.dumps(states[-1]))
    out, checks = tmp_path / "shown", tmp_path / "out.json"
    assert main(["exam", str(file), "--out", str(out), "--json", str(checks)]) == 0
    page = (out / "report.html").read_text()
    assert "heart/front/mitral" in page and "out of reach" in page and "<audio" in page
    assert json.loads(checks.read_text())["passed"]
    forged = json.loads(json.dumps(states[-1]))
    forged["trials"][0]["score"] = 0.45
    file.write_text(json.dumps(forged))
    assert main(["exam", str(file), "--out", str(tmp_path / "forged")]) == 1
    file.write_text(json.dumps(states[1]))  # interrupted after its first trial
    assert main(["exam", str(file), "--out", str(tmp_path / "interrupted")]) == 1
    capsys.readouterr()


@pytest.mark.parametrize(
    "texts, why", [(["[1, 2]"], "a list"), (["{"], "no exam"), ([], "did one begin"), (['{"version": 1}'], "lacks")]
)
def test_a_bag_without_an_exam_is_refused_in_one_line(tmp_path, capsys, texts, why):
    assert main(["exam", str(bag_of(tmp_path / "bag", texts))]) == 2
    said = capsys.readouterr().err
    assert why in said and "Traceback" not in said


def test_damage_is_refused_in_one_line(states, tmp_path, capsys):
    file = tmp_path / "exam.json"
    for damage in (
        lambda s: s["exam"].pop("planners"),
        lambda s: s["trials"][0].update(region=["heart"]),
        lambda s: s["trials"][0].update(candidate=10**6),
        lambda s: s.update(skin=3),
        lambda s: s["config"].update(readings="many"),
    ):
        state = json.loads(json.dumps(states[-1]))
        damage(state)
        file.write_text(json.dumps(state))
        assert main(["exam", str(file)]) == 2
        said = capsys.readouterr().err
        assert said.count("\n") <= 2 and "Traceback" not in said
    assert main(["exam", str(tmp_path / "none.json")]) == 2
