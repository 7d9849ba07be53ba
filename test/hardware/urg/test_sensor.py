"""The emulated sensor by itself, in time made up by the test: every command, every status, what it sees."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardware.urg.protocol import ReplyStream, Window, request
from hardware.urg.scene import DARK, MIRROR, NORMAL, Hits, MujocoScene, Optics, Room
from hardware.urg.sensor import FIRST, FRONT, LAST, STEPS, Sensor

FULL = Window(FIRST, LAST)
ANGLES = (np.arange(FIRST, LAST + 1) - FRONT) * 2 * np.pi / STEPS
TURN = np.arange(FIRST, LAST + 1) + 1000  # a scan whose distances name their steps


class Bench:
    """A sensor with a clock and a reader."""

    def __init__(self, scip1=False, cast=lambda: TURN, **options):
        self.now = 100.0
        self.sensor = Sensor(cast, self.now, scip1=scip1, boot_time=0.0, **options)
        self.reader = ReplyStream()

    def say(self, line):
        """Replies to raw bytes."""
        return [r for answer in self.sensor.receive(line, self.now) for r in self.reader.feed(answer)]

    def status(self, command, parameters="", string=""):
        (reply,) = self.say(request(command, parameters, string))
        return reply.status

    def wait(self, seconds):
        """What it sends by itself meanwhile."""
        answers = []
        for _ in range(max(1, round(seconds / 0.05))):
            self.now += min(seconds, 0.05)
            answers += self.sensor.advance(self.now)
        return [r for answer in answers for r in self.reader.feed(answer)]


@pytest.fixture
def bench():
    return Bench()


# ---- start ---------------------------------------------------------------------------------------


def test_it_wakes_up_in_scip_1_1():
    bench = Bench(scip1=True)
    for line in (b"VV\n", b"QT\n", b"MD0044072501000\n"):
        assert bench.sensor.receive(line, bench.now) == [line[:-1] + b"\nE\n\n"]
    assert bench.sensor.receive(b"SCIP2.0\n", bench.now) == [b"SCIP2.0\n0\n\n"]
    assert bench.status("QT") == "00"
    bench.sensor.power_on(bench.now)
    assert bench.status("QT") == "E"


def test_it_is_silent_while_it_boots():
    bench = Bench()
    bench.sensor.boot_time = 0.5
    bench.sensor.power_on(bench.now)
    assert bench.say(b"VV\n") == []
    bench.now += 0.6
    assert bench.status("VV") == "00"


def test_requests_come_in_any_pieces(bench):
    """The C library sends QT, TM0 and TM1 at once."""
    replies = bench.say(b"QT\nTM0\nTM1\n")
    assert [(r.echo, r.status) for r in replies] == [("QT", "00"), ("TM0", "00"), ("TM1", "00")]
    assert bench.status("TM", "2") == "00"
    for piece in (b"V", b"V;he", b"llo"):
        assert bench.say(piece) == []
    (reply,) = bench.say(b"\n")
    assert reply.echo == "VV;hello" and reply.info["SERI"] == "H0614967"
    assert [r.status for r in bench.say(b"QT\r\n\nVV\r")] == ["00", "00"]
    assert [r.status for r in bench.say(b"VV\nVV\n")] == ["00", "0B"]


def test_identity(bench):
    (pp,), (ii,) = bench.say(b"PP\n"), bench.say(b"II\n")
    assert {k: pp.info[k] for k in ("DMIN", "DMAX", "ARES", "AMIN", "AMAX", "AFRT", "SCAN")} == {
        "DMIN": "20",
        "DMAX": "5600",
        "ARES": "1024",
        "AMIN": "44",
        "AMAX": "725",
        "AFRT": "384",
        "SCAN": "600",
    }
    assert list(ii.info) == ["MODL", "LASR", "SCSP", "MESM", "SBPS", "TIME", "STAT"]
    assert ii.info["LASR"] == "OFF" and ii.info["STAT"] == "Sensor works well."


# ---- statuses (U3) -------------------------------------------------------------------------------


def test_general_statuses(bench):
    assert [bench.status(*x) for x in (("MD",), ("MD", "0044"), ("QT", "7"))] == ["0C", "0F", "0D"]
    assert bench.sensor.receive(b"XX\nQX\n", bench.now) == [b"XX\n0Dd\n\n", b"QX\n0Ee\n\n"]
    assert bench.say(b"VV;seventeen letters!\n")[0].status == "0G"
    assert b"\n0H" in bench.sensor.receive(b"VV;\xe4\n", bench.now)[0]
    assert bench.say(b"SCIP2.0\n")[0].status == "0E"
    bench.sensor.firmware_update = True
    assert [bench.status("QT"), bench.status("VV"), bench.status("II")] == ["0I", "00", "00"]
    assert bench.status("RS") == "00" and bench.status("QT") == "00"


def test_statuses_of_laser_and_motor(bench):
    assert [bench.status("BM"), bench.status("BM"), bench.status("QT"), bench.status("BM")] == ["00", "02", "00", "00"]
    bench.sensor.trouble = 50
    assert bench.status("BM") == "01"
    bench.sensor.trouble = 0
    assert [bench.status("CR", x) for x in ("xx", "11", "00", "10", "10", "99")] == ["01", "02", "03", "00", "03", "00"]
    assert [bench.status("HS", x) for x in ("2", "0", "1", "1")] == ["01", "02", "00", "02"]
    assert [bench.status("SS", x) for x in ("abcdef", "123456", "019200", "038400", "115200", "115200")] == [
        "01",
        "02",
        "03",
        "04",
        "00",
        "03",
    ]
    assert bench.sensor.rate == 115200
    assert bench.status("RS") == "00" and bench.sensor.rate == 19200


def test_adjust_mode(bench):
    assert [bench.status("TM", x) for x in ("1", "2", "7", "0", "0")] == ["04", "03", "01", "00", "02"]
    assert [bench.status("QT"), bench.status("VV"), bench.status("MD", "0044072501000")] == ["0E"] * 3
    bench.now += 1.5
    (reply,) = bench.say(b"TM1\n")
    assert reply.time == 1500
    assert bench.status("TM", "2") == "00" and bench.status("VV") == "00"


@pytest.mark.parametrize("command, more", [("GD", ""), ("GS", ""), ("MD", "000"), ("MS", "000")])
def test_parameters_of_measuring(bench, command, more):
    wrong = {"x044072501": "01", "0044x72501": "02", "00440725x1": "03", "0044076901": "04", "0400030001": "05"}
    for sent, status in wrong.items():
        assert bench.status(command, sent + more) == status
    if more:
        assert bench.status(command, "0044072501x00") == "06" and bench.status(command, "00440725010x0") == "07"
    else:
        assert bench.status(command, "0044072501") == "10"


def test_trouble_while_measuring(bench):
    """21-49: a check, after which 98 says that scans go on; 50-97: the end."""
    for code in range(21, 50):
        assert bench.status("MD", "0044072501000") == "00"
        assert [r.status for r in bench.wait(0.2)] == ["99"]
        bench.sensor.trouble = code
        assert [r.status for r in bench.wait(0.5)] == [str(code)]
        bench.sensor.trouble = 0
        assert [r.status for r in bench.wait(0.3)] == ["98", "99", "99"]
        bench.status("QT")
    for code in range(50, 98):
        assert bench.status("MD", "0044072501000") == "00"
        bench.sensor.trouble = code
        assert [r.status for r in bench.wait(0.5)] == [str(code)]
        assert bench.status("MD", "0044072501000") == bench.status("GD", "0044072501") == str(code)
        assert "Error" in bench.say(b"II\n")[0].info["STAT"]
        bench.sensor.trouble = 0


def test_simulated_malfunctions(bench):
    """DB, which real sensors know too."""
    assert [bench.status("DB", x) for x in ("07", "10", "02", "02")] == ["01", "03", "00", "02"]
    assert bench.status("BM") == "01" and bench.status("DB", "10") == "00" and bench.status("BM") == "00"
    for mode, ends in (("03", ["21", "98", "99"]), ("04", ["21", "50"]), ("05", ["50"])):
        assert bench.status("DB", mode) == "00" and bench.status("MD", "0044072501000") == "00"
        statuses = [r.status for r in bench.wait(2.5) if r.status]
        assert list(dict.fromkeys(statuses))[: len(ends) + 1] in (["99", *ends], ["99", *ends[:-1]])
        bench.status("QT"), bench.status("DB", "10")
    assert bench.status("DB", "01") == "00" and bench.status("QT") == "E"
    bench.sensor.power_on(bench.now)
    bench.sensor.trouble = 60
    assert bench.status("DB", "02") == "05"


@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.binary(max_size=40),
            st.sampled_from(
                [
                    b"QT\n",
                    b"MD0044072501000\n",
                    b"GS0000076899\n",
                    b"TM0\n",
                    b"TM1\n",
                    b"SCIP2.0\n",
                    b"DB03\n",
                    b"SS115200\n",
                    b"\n",
                    b";",
                ]
            ),
        ),
        max_size=15,
    ),
    st.booleans(),
)
def test_no_request_upsets_it(pieces, scip1):
    """Every line is answered by a reply that begins with its echo."""
    bench = Bench(scip1=scip1)
    for piece in pieces:
        for answer in bench.sensor.receive(piece, bench.now):
            assert answer.endswith(b"\n\n") and answer.index(b"\n") > 0
        bench.wait(0.1)
    bench.sensor.power_on(bench.now)
    assert bench.status("QT") == ("E" if scip1 else "00")


def test_a_single_scan_waits_for_the_first_turn_after_the_laser_went_on(bench):
    bench.wait(0.05)
    bench.status("BM")  # in the middle of a turn, already facing left
    asked = bench.now
    assert bench.say(FULL.latest()) == [] == bench.wait(0.05)
    (reply,) = bench.wait(0.15)
    assert reply.answers(FULL.latest()) and reply.status == "00" and (reply.distances == TURN).all()
    assert 0.048 < reply.time * 1e-3 + 100.0 - asked < 0.1  # of the next turn, not of the one that was under way
    assert [each.status for each in bench.say(FULL.latest())] == ["00"]  # there is one now: at once


def test_requests_behind_a_single_scan_wait_their_turn(bench):
    assert [r.command for r in bench.say(request("BM") + FULL.latest() + request("VV") + request("II"))] == ["BM"]
    assert [r.command for r in bench.wait(0.3)] == ["GD", "VV", "II"]
    bench.status("QT")
    bench.wait(0.3)
    assert bench.status("GD", "0044072501") == "10"
    bench.say(request("BM") + FULL.latest())
    queued = b"".join(request("VV", string=str(k)) for k in range(9))
    assert [r.status for r in bench.say(queued)] == ["0B", "0B"]  # eight wait, the scan among them
    assert len(bench.wait(0.3)) == 8


def test_a_laser_that_breaks_answers_who_waits(bench):
    assert bench.status("BM") == "00" and bench.say(FULL.latest()) == []
    bench.sensor.trouble = 60
    assert [r.status for r in bench.wait(0.3)] == ["60"]


# ---- scans ---------------------------------------------------------------------------------------


def test_scans_come_once_a_turn_with_the_time_of_step_0(bench):
    assert bench.status("MD", "0044072501000", "me") == "00"
    scans = bench.wait(1.1)
    assert len(scans) == 10 and all(r.echo == "MD0044072501000;me" for r in scans)
    assert abs(np.diff([r.time for r in scans]) - 100).max() <= 1
    assert (scans[0].distances == TURN).all()
    # Sent as soon as step 725 was measured, 71 ms after step 0.
    bench.wait(0.02)
    due = bench.sensor._turn_begin + 0.1 * 725 / 1024
    step_0 = scans[-1].time + 100
    bench.now = due - 1e-4
    assert bench.wait(0.0) == []
    (scan,) = bench.wait(2e-4)
    assert scan.time == pytest.approx(step_0, abs=1)
    assert bench.sensor.timer(due) - scan.time == pytest.approx(100 * 725 / 1024, abs=1)


def test_counted_and_skipped_scans(bench):
    assert bench.status("MS", "0044072501203") == "00"
    scans = bench.wait(2.0)
    assert [r.echo[-2:] for r in scans] == ["02", "01", "00"] and abs(np.diff([r.time for r in scans]) - 300).max() <= 1
    assert not bench.sensor.laser and bench.wait(0.5) == []
    assert bench.status("MD", "0044072501000") == "00" and bench.status("MD", "0100020001000") == "0B"
    assert bench.status("QT") == "00" and bench.wait(0.5) == []


def test_single_scans_and_steps_outside_the_measured(bench):
    bench.status("BM")
    bench.wait(0.3)
    (reply,) = bench.say(b"GD0000076801\n")
    assert (reply.distances[:FIRST] == 19).all() and (reply.distances[LAST + 1 :] == 19).all()
    assert (reply.distances[FIRST : LAST + 1] == TURN).all()


@pytest.mark.parametrize(
    "first, last, cluster, width",
    [(44, 725, 1, 3), (44, 725, 3, 3), (100, 399, 7, 2), (384, 384, 99, 2), (0, 768, 99, 3)],
)
def test_windows_and_clusters_match_a_reference(first, last, cluster, width):
    """U9, the sensor's part: the smallest valid distance of each group, by plain loops."""
    rng = np.random.default_rng(5)
    turn = rng.integers(20, 5600, LAST - FIRST + 1)
    turn[rng.random(len(turn)) < 0.4] = 7
    bench = Bench(cast=lambda: turn)
    window = Window(first, last, cluster, width=width)
    bench.status("BM")
    bench.wait(0.3)
    (reply,) = bench.say(window.latest())
    steps = [int(turn[s - FIRST]) if FIRST <= s <= LAST else 19 for s in range(first, last + 1)]
    expected = []
    for begin in range(0, len(steps), cluster):
        group = steps[begin : begin + cluster]
        valid = [d for d in group if d >= 20]
        expected.append(min(min(valid) if valid else group[0], 4095 if width == 2 else 1 << 18))
    assert reply.distances.tolist() == expected and len(expected) == window.count


def test_timer_wraps_and_drifts(bench):
    bench.sensor.set_timer(2**24 - 250, bench.now)
    bench.status("MD", "0044072501000")
    times = [r.time for r in bench.wait(0.65)]
    assert max(times) > 2**24 - 250 and min(times) < 500
    assert (np.diff(np.array(times)) < -(2**23)).sum() == 1
    bench.sensor.skew = 1e-3
    before = bench.sensor.timer(bench.now)
    assert bench.sensor.timer(bench.now + 100.0) - before == pytest.approx(100_100, abs=1)


def test_a_slow_motor(bench):
    bench.sensor.slow = 540.0
    bench.status("MD", "0044072501000")
    assert np.diff([r.time for r in bench.wait(2.0)]).mean() == pytest.approx(1000 / 9, abs=0.2)
    assert "540" in bench.say(b"II\n")[0].info["SCSP"]


# ---- what it sees --------------------------------------------------------------------------------


def test_the_room_is_where_its_file_says(tmp_path):
    hits = Room().cast(ANGLES)
    # Ahead is the wall x = 2, 1.6 m from the scanner at (0.4, 0); left the wall y = 1.6; the corner at 45 degrees.
    assert hits.distance[FRONT - FIRST] == pytest.approx(1.6)
    assert hits.distance[np.argmin(abs(ANGLES - np.pi / 2))] == pytest.approx(1.6)
    assert hits.distance[np.argmin(abs(ANGLES - np.pi / 4))] == pytest.approx(1.6 * np.sqrt(2))
    # The box on the right makes left and right differ.
    assert hits.distance[np.argmin(abs(ANGLES + np.arctan2(0.9, 0.8)))] < 1.2
    assert {NORMAL, DARK, MIRROR} == set(hits.surface.tolist())
    open_field = tmp_path / "empty.yaml"
    open_field.write_text("segments: []\n")
    assert np.isinf(Room(open_field).cast(ANGLES).distance).all()
    for text in (
        "segments: [{line: [1, 2]}]\n",
        "boxes: [{center: [0, 0]}]\n",
        "segments: [{line: [0, 0, 1, 1], surface: fur}]\n",
    ):
        open_field.write_text(text)
        with pytest.raises(ValueError, match="describes no room"):
            Room(open_field)


WORLD = """<mujoco><worldbody>
  <geom name="wall" type="box" pos="2.1 0 0" size="0.1 3 1"/>
  <geom name="black" type="box" pos="0 -1.1 0" size="3 0.1 1" rgba="0.01 0.01 0.01 1"/>
  <body name="base"><joint name="turn" type="hinge" axis="0 0 1"/><geom type="sphere" size="0.1"/>
    <site name="urg" pos="0 0 0.05"/></body></worldbody></mujoco>"""


def test_the_world_of_the_simulated_robot():
    q = np.zeros(1)
    scene = MujocoScene(WORLD, ["turn"], lambda: q)
    hits = scene.cast(ANGLES)
    assert hits.distance[FRONT - FIRST] == pytest.approx(2.0)
    right = np.argmin(abs(ANGLES + np.pi / 2))
    assert hits.distance[right] == pytest.approx(1.0, abs=1e-5) and hits.surface[right] == DARK
    assert np.isinf(hits.distance[np.argmin(abs(ANGLES - np.pi / 2))])  # nothing on the left: not mirrored
    q[0] = -np.pi / 2  # turned right, it faces the black wall
    assert scene.cast(ANGLES).distance[FRONT - FIRST] == pytest.approx(1.0)
    with pytest.raises(ValueError, match="expected a site 'lidar'"):
        MujocoScene(WORLD, ["turn"], lambda: q, "lidar")


def test_noise_is_within_the_accuracy_and_codes_where_light_fails():
    distance = np.concatenate((np.full(5000, 0.5), np.full(5000, 3.0)))
    plain = Hits(distance, np.full(10000, NORMAL))
    readings = Optics(1, codes=False).measure(plain)
    assert abs(readings[:5000] - 500).max() <= 10 and abs(readings[5000:] - 3000).max() <= 30
    assert readings[:5000].std() == pytest.approx(10 / 3, rel=0.1) and readings[5000:].std() == pytest.approx(
        10, rel=0.1
    )
    assert (Optics(1, codes=False).measure(plain) == readings).all()  # by seed
    assert (Optics(1, noise=0.0, codes=False).measure(plain) == 1000 * distance).all()
    for d, expected in ((np.inf, 1), (21.0, 0), (5.9, 5900), (0.01, 6)):
        assert Optics(noise=0.0).measure(Hits(np.array([d]), np.zeros(1, int))).tolist() == [expected]
    optics = Optics(2)
    codes = set()
    for _ in range(20):
        codes |= set(optics.measure(Hits(np.full(500, 2.0), np.arange(500) // 100 % 3)).tolist())
        ragged = np.random.default_rng(1).permutation(np.repeat([1.0, 2.0], 250))
        codes |= set(optics.measure(Hits(ragged, np.zeros(500, int))).tolist())
    assert {2, 7, 8, 9, 18} <= {code for code in codes if code < 20}
