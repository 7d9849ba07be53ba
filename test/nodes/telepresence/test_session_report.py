"""What a session's report says, and that it is whole."""

import json

import pytest

from nodes.telepresence.protocol import Pong, Sample
from nodes.telepresence.sample_stream import SampleStream
from nodes.telepresence.session_log import SessionLog, percentiles
from nodes.telepresence.session_report import rejoins, write_session_report
from sim_core.telepresence.competition import Rehearsed


def session(
    name="Ada", role="operator", began=100.0, seconds=10.0, heard=110.0, ended="left", age=0.02, seqs=range(100)
):
    stream = SampleStream(name)
    ping = stream.ping(began)
    stream.pong(Pong(ping.id, 1e3 * (began + 0.005)), began + 0.01)
    log = SessionLog(f"{name}-{began:g}", name, role, "127.0.0.1", began, "2026-01-01T00:00:00Z", stream)
    for i, seq in enumerate(seqs):
        now = began + 0.01 * i
        stream.take(Sample(seq, 1e3 * (now - age), None, None, None, (0.0, 0.0, 0.0), None), now)
        log.measure("samples", 100)
    log.dropped["stale"] += 3
    log.buttons["stop"] += 1
    log.video.append(
        {"streams": {"left_eye": {"kilobytes": 500.0, "age_ms": percentiles([0.03, 0.05])}}, "steps_down": 2}
    )
    return log.facts(began + seconds, heard, ended)


def test_facts_of_a_session():
    facts = session(seqs=range(0, 200, 2))
    assert facts["samples"] == {"arrived": 100, "taken": 100, "lost": 99, "dropped": {"stale": 3}}
    assert facts["age_ms"]["p50"] == pytest.approx(20.0, abs=0.01) and facts["loss"] == pytest.approx(99 / 199)
    assert facts["rtt_ms"]["max"] == pytest.approx(10.0) and facts["seconds"] == 10.0
    assert facts["bandwidth_kbit"] == {"samples": pytest.approx(8.0)}
    assert percentiles([]) is None
    json.dumps(facts, allow_nan=False)
    assert session(seqs=())["loss"] is None and session(seqs=())["jitter_ms"] is None


def test_a_rejoin_counts_from_the_last_word_that_was_heard():
    lost = session(began=0.0, heard=10.0, ended="silent")
    taken = session(began=12.5, heard=20.0, ended="sent away: occupied")
    others = [session("Bob", "watcher", began=11.0), session(began=21.0), session("Eve", began=50.0, ended="silent")]
    assert rejoins([lost, taken, *others]) == [pytest.approx(2.5), pytest.approx(1.0)]
    assert rejoins([session(ended="left", heard=1.0), session(began=120.0)]) == []


def test_a_report_holds_checks_sessions_and_streams(tmp_path):
    sessions = [
        session(began=12.5, age=0.05), session(began=0.0, heard=10.0, ended="silent"),
        session("<b>Bob</b>", "watcher", began=11.0, seqs=()),
    ]  # fmt: skip
    folder = write_session_report(sessions, {"taken": 200, "refused_token": 1}, "Avatar", tmp_path / "report")
    document = json.loads((folder / "report.json").read_text())
    assert [each["began_s"] for each in document["sessions"]] == [0.0, 11.0, 12.5]
    assert [check["passed"] for check in document["checks"]] == [True, False, True] and not document["passed"]
    assert document["counts"]["refused_token"] == 1
    page = (folder / "report.html").read_text()
    assert "&lt;b&gt;Bob" in page and "<b>Bob" not in page and "left_eye" in page and "silent" in page
    assert write_session_report(sessions, {}, "Avatar", tmp_path / "report").name == "report-2"


def test_a_report_says_what_rehearsed_tasks_are_worth(tmp_path):
    rehearsed = [
        Rehearsed("canisters", 0.5, "A canister fell over.", False, 21.0),
        Rehearsed("switch", 1.0, "Done: a lever is pressed down.", True, 9.5),
        Rehearsed("juggling", 1.0, "Done.", True, 1.0),  # of a world that knows more tasks than the competition
    ]
    folder = write_session_report([session()], {}, "Avatar", tmp_path / "report", rehearsed)
    document = json.loads((folder / "report.json").read_text())
    assert document["competition_points"] == 2 and document["rehearsed"][0]["sentence"] == "A canister fell over."
    page = (folder / "report.html").read_text()
    assert "Worth 2 of the ten points" in page and "A canister fell over." in page
    plain = write_session_report([session()], {}, "Avatar", tmp_path / "plain")
    assert "competition_points" not in json.loads((plain / "report.json").read_text())


def test_a_report_of_watchers_alone(tmp_path):
    folder = write_session_report([session(role="watcher", seqs=())], {}, "Avatar", tmp_path / "report")
    assert not json.loads((folder / "report.json").read_text())["checks"]
