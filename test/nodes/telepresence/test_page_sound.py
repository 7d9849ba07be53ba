"""The operator's page hears the robot, speaks with the browser's microphone and sets head and eyes, against the bridge's server alone.

The browser's microphone is one that beeps by itself. The pictures of the browser are kept in runs/test_station.
"""

import asyncio
import dataclasses

import pytest
from page_watcher import CHROMIUM
from sounds import Sounding
from station_page import PICTURES, Server, Station
from test_page_link import IDLE

from nodes.telepresence.protocol_robot import Refused

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt-get install chromium"),
]
#: a microphone that beeps, and a person who always says yes
FAKE = ("--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream")


@pytest.fixture(scope="module")
def server():
    with Server() as one:
        one.show(IDLE)
        yield one


@pytest.fixture(scope="module")
def station(server, tmp_path_factory):
    with Station(server.url, tmp_path_factory.mktemp("browser") / "profile", headset=True, flags=FAKE) as page:
        yield page


@pytest.fixture
def page(server, station):
    """Loaded anew, and nobody in it."""
    ground = server.ground
    for list_of in (ground.samples, ground.buttons, ground.voices, ground.adjusted):
        list_of.clear()
    ground.hears_voice = True
    server.show(IDLE)
    station.size(1280, 1000)
    station.go(server.url)
    return station


@pytest.fixture
def sounding(server):
    """A microphone of the robot that sounds: -9 dB of full scale."""
    source = Sounding(server.ground.server.sound)
    task = asyncio.run_coroutine_threadsafe(source.run(), server.loop)
    yield source
    task.cancel()


def drive(server, page):
    page.join()
    page.has("seat-line", "you drive")
    page.until(lambda: server.ground.samples, "samples come")


def meter(page, name):
    return float(page.evaluate(f"document.getElementById('{name}').value"))


def track(page):
    """State of the operator's microphone, as the browser has it."""
    return page.evaluate("window.opened?.getAudioTracks()[0].readyState")


#: the browser's microphones are remembered, so that a test sees whether they are closed
REMEMBER = """
(() => { const open = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
  window.asked = 0;
  navigator.mediaDevices.getUserMedia = async w => { window.asked += 1; return window.opened = await open(w) }; return 1 })()
"""


def test_the_robot_is_heard_at_its_level_while_listen_is_on(server, page, sounding):
    drive(server, page)
    assert not server.ground.server.is_listened_to, "off until it is asked for"
    page.has("sound-line", "The robot's sound is off.")
    page.press("Listen")
    page.until(lambda: server.ground.server.is_listened_to, "the page asks for sound")
    # -9 dB on a meter that begins at -60
    page.until(lambda: 0.8 < meter(page, "sound-level") < 0.9, "the level of the tone")
    page.has("sound-line", "You hear the robot.")
    page.has("numbers", "sound")
    page.evaluate("const v = document.getElementById('volume'); v.value = 30; v.dispatchEvent(new Event('input')); 0")
    page.screenshot(PICTURES / "desktop_sound.png")
    sounding.level = 0.0
    page.has("sound-line", "Nothing is heard: the robot has no microphone, or all is silent there.")
    assert meter(page, "sound-level") == 0.0
    page.key("Digit4")
    page.until(lambda: not server.ground.server.is_listened_to, "4 switches it off")


def test_a_watcher_hears_and_has_no_microphone(server, page, sounding):
    page.join(button="Watch")
    page.has("seat-line", "you watch")
    page.press("Listen")
    page.until(lambda: meter(page, "sound-level") > 0.5, "the tone")
    assert page.evaluate("[...document.querySelectorAll('#menu button')].find(b => b.textContent === 'Speak').disabled")


def test_speaking_opens_the_microphone_shows_that_it_is_live_and_closes_it(server, page):
    page.evaluate(REMEMBER)
    drive(server, page)
    page.until(lambda: next(iter(server.ground.server.clients)).video is not None, "the connection")
    assert page.evaluate("window.asked") == 0 and page.evaluate("document.getElementById('live').hidden")
    page.press("Speak")
    page.until(lambda: len(server.ground.voices) > 20, "the voice")
    assert any(abs(samples).max() > 500 for samples, _ in server.ground.voices) or page.until(
        lambda: any(abs(samples).max() > 500 for samples, _ in server.ground.voices), "a beep"
    )
    page.has("live", "Your microphone is live")
    page.has("voice-line", "Everybody near the robot can hear you.")
    assert "LIVE" in page.evaluate("document.title") and track(page) == "live"
    page.until(lambda: meter(page, "voice-level") > 0.1, "its level")
    page.has("numbers", "voice")
    page.screenshot(PICTURES / "desktop_live.png")
    page.press("LIVE: end speaking")
    page.has("voice-line", "Your microphone is off.")
    assert page.evaluate("document.getElementById('live').hidden") and track(page) == "ended"
    page.until(lambda: not next(iter(server.ground.server.clients)).speaks, "the robot is told")
    count = len(server.ground.voices)
    page.key("Digit5")
    page.until(lambda: len(server.ground.voices) > count, "5 speaks")
    page.press("Release the seat")
    page.has("seat-line", "you watch")
    page.until(lambda: track(page) == "ended", "who does not drive is not recorded")
    page.has("pressed", "Your microphone is off")


def test_a_microphone_that_is_refused_is_a_sentence(server, page):
    drive(server, page)
    refuse = "navigator.mediaDevices.getUserMedia = () => Promise.reject(new DOMException('no', '{}')); 0"
    for name, said in (("NotAllowedError", "The microphone was not allowed"), ("NotFoundError", "finds no microphone")):
        page.evaluate(refuse.format(name))
        page.press("Speak")
        page.has("notice-sentence", said)
        page.has("pressed", said)
        assert page.evaluate("document.getElementById('live').hidden")
    page.screenshot(PICTURES / "microphone_refused.png")
    assert not server.ground.voices


def test_where_the_robot_has_no_loudspeaker_the_microphone_is_closed_again(server, page):
    page.evaluate(REMEMBER)
    server.ground.hears_voice = False
    drive(server, page)
    page.press("Speak")
    page.has("notice-sentence", "nothing on the robot plays a voice")
    page.until(lambda: track(page) == "ended", "the microphone is closed")
    assert page.evaluate("document.getElementById('live').hidden") and not server.ground.voices


def test_straight_ahead_is_where_the_operator_looks_and_back(server, page):
    drive(server, page)
    page.key("KeyB", up=False)
    page.until(lambda: server.ground.samples[-1][1].head.q[1] > 0.15, "the head is turned to the left")
    page.key("KeyB", down=False)
    page.press("Look straight ahead")
    page.until(lambda: server.ground.adjusted, "the head is set")
    name, value, reply = server.ground.adjusted[-1]
    turned = 2.0 * float(__import__("math").asin(server.ground.samples[-1][1].head.q[1]))
    assert name == "head_yaw" and value == pytest.approx(-turned, abs=0.15) and value < -0.25
    is_on = (
        "[...document.querySelectorAll('#menu button')].find(b => b.textContent === 'Look straight ahead').ariaPressed"
    )
    page.until(lambda: page.evaluate(is_on) == "true", "it is shown")
    page.key("Digit6")
    page.until(lambda: len(server.ground.adjusted) == 2, "a second press")
    assert server.ground.adjusted[-1][:2] == ("head_yaw", 0.0) and page.evaluate(is_on) == "false"
    page.press("Look straight ahead")
    page.until(lambda: len(server.ground.adjusted) == 3 and page.evaluate(is_on) == "true", "a third")
    why = Refused("busy", "'head_yaw' was not done: yaw: expected an angle within the neck's limits.")
    server.loop.call_soon_threadsafe(server.ground.adjusted[-1][2], why)
    page.has("notice-sentence", "within the neck's limits")
    page.until(lambda: page.evaluate(is_on) == "false", "what was refused is not shown as done")


def test_the_eyes_are_set_when_the_slider_is_let_go_and_a_refusal_is_read(server, page):
    drive(server, page)
    move = (
        "(() => {{ const e = document.getElementById('eyes'); e.value = {}; e.dispatchEvent(new Event('{}')) }})(); 0"
    )
    page.evaluate(move.format(66, "input"))
    page.has("eyes-value", "66 mm")
    assert not server.ground.adjusted
    page.evaluate(move.format(66, "change"))
    page.until(lambda: server.ground.adjusted, "the distance is set")
    assert server.ground.adjusted[-1][:2] == ("eye_distance", 0.066)
    why = Refused(
        "busy", "'eye_distance' was not done: no node that sets the distance of the robot's eyes is there to be asked."
    )
    server.loop.call_soon_threadsafe(server.ground.adjusted[-1][2], why)
    page.has("eyes-line", "no node that sets the distance of the robot's eyes is there")
    # by keys, which are the slider's while it has the focus, all but the stop
    page.evaluate("document.getElementById('eyes').focus()")
    page.key("ArrowRight", "ArrowRight")
    page.key("Space")
    page.until(lambda: [name for name, *_ in server.ground.buttons] == ["stop"], "Space stops on a slider as well")


def test_seven_cameras_sound_face_and_voice_fit_into_one_offer(tmp_path_factory):
    names = ("left_eye", "right_eye", "birds_eye_1", "birds_eye_2", "birds_eye_3", "right_wrist", "left_wrist")
    with Server(streams=names) as server:
        server.show(IDLE)
        with Station(server.url, tmp_path_factory.mktemp("browser") / "profile", flags=FAKE) as page:
            page.evaluate("const s = WebSocket.prototype.send; WebSocket.prototype.send = function(t) {"
                          "if (String(t).includes('\"offer\"')) window.offered = t.length; s.call(this, t) }; 0")  # fmt: skip
            drive(server, page)
            page.press("Listen")
            page.press("Face video")
            page.until(lambda: server.ground.server.watched() == set(names), "all cameras")
            page.until(lambda: server.ground.server.is_listened_to, "the sound")
            print("bytes of the offer:", page.evaluate("window.offered"))


def test_in_the_headset_the_board_speaks_and_a_sign_says_that_it_is_live(server, page):
    page.size(1000, 640)
    drive(server, page)
    page.press("Enter VR")
    page.until(lambda: page.evaluate("!!device.activeSession"), "the headset shows the page")
    page.hand(p=[0.3, 1.2, -0.2])

    def pull(x, y):
        page.point("right", x, y)
        asyncio.run(asyncio.sleep(0.5))
        page.hand(trigger=1)
        asyncio.run(asyncio.sleep(0.3))
        page.hand(trigger=0)

    speaks = "!document.getElementById('live').hidden"

    def pressed():
        pull(593, 722)  # third row, in the middle
        asyncio.run(asyncio.sleep(2.0))
        return page.evaluate(speaks)

    page.until(pressed, "the board speaks")
    page.until(lambda: server.ground.voices, "the voice")
    page.screenshot(PICTURES / "vr_live.png")
    page.evaluate("device.quaternion.set(-0.29, 0, 0, 0.957); 0")  # the head bent by 34 degrees
    asyncio.run(asyncio.sleep(1.0))
    page.screenshot(PICTURES / "vr_board_sound.png")
    pull(593, 829)  # fourth row: the eyes as far apart as the operator's
    page.until(lambda: server.ground.adjusted, "the eyes are set")
    name, value, _ = server.ground.adjusted[-1]
    assert name == "eye_distance" and 0.05 <= value <= 0.075 and page.evaluate(speaks)
    page.evaluate("device.activeSession.end()")
    page.evaluate("device.quaternion.set(0, 0, 0, 1); 0")


def test_a_lost_link_closes_the_microphone(server, page):
    page.evaluate(REMEMBER)
    drive(server, page)
    page.press("Speak")
    page.until(lambda: server.ground.voices and track(page) == "live", "the voice")
    page.evaluate("document.getElementById('leave').click()")
    page.until(lambda: track(page) == "ended", "the microphone is closed")
    server.show(dataclasses.replace(IDLE))
