"""The operator's page against the bridge's server alone: who is let in, what is said, what a lost network costs.

The pictures of the browser are kept in runs/test_station.
"""

import asyncio
import dataclasses
import itertools
import json
import time

import av
import numpy as np
import pytest
from link_client import STATUS, Network, Place
from page_watcher import CHROMIUM
from station_page import PICTURES, Server, Station
from test_video import jpeg

from nodes.telepresence import protocol
from nodes.telepresence.protocol import Release
from nodes.telepresence.protocol_robot import LinkNumbers, SupervisorWords, Texture

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt-get install chromium"),
]
TOKEN = "a-token-of-thirty-two-characters"
IDLE = dataclasses.replace(
    STATUS,
    message="ready; press a clutch to move an arm",
    arm_mode=("holds", "holds"),
    effectors=(Place((0.5, -0.2, 0.9), (0.0, 1.0, 0.0, 0.0)), Place((0.5, 0.2, 0.9), (0.0, 1.0, 0.0, 0.0))),
    targets=(Place((0.5, -0.25, 1.0), (0.0, 1.0, 0.0, 0.0)), Place((0.5, 0.2, 0.9), (0.0, 1.0, 0.0, 0.0))),
    supervisor=SupervisorWords("RUNNING", 0, ""),
    link=LinkNumbers(),
)


@pytest.fixture(scope="module")
def server():
    with Server(token=TOKEN) as one:
        one.show(IDLE)
        yield one


@pytest.fixture(scope="module")
def station(server, tmp_path_factory):
    with Station(server.url, tmp_path_factory.mktemp("browser") / "profile", headset=True) as page:
        yield page


@pytest.fixture
def page(server, station):
    """Loaded anew, and nobody in it."""
    server.ground.samples.clear()
    server.ground.buttons.clear()
    server.show(IDLE)
    station.evaluate("sessionStorage.clear()")
    station.go(server.url)
    return station


def newest(server):
    return server.ground.samples[-1][1]


def test_a_wrong_token_is_a_sentence_and_the_right_one_lets_in(server, page):
    page.join(token="wrong")
    page.has("door-said", "The token is not the one of this robot's token file")
    page.screenshot(PICTURES / "wrong_token.png")
    page.join(token=TOKEN)
    page.has("seat-line", "you drive")
    page.until(lambda: server.ground.samples, "samples come")
    assert TOKEN not in str(page.evaluate("location.href")) and TOKEN not in str(
        page.evaluate("JSON.stringify(localStorage)")
    )


def test_a_token_behind_the_address_is_taken_and_hidden(server, page):
    page._call("Page.navigate", url="about:blank")  # the fragment alone would load nothing
    page.go(f"{server.url}/#token={TOKEN}")
    assert page.evaluate("location.hash + location.search") == ""
    page.evaluate("document.getElementById('name').value = 'Ada'")
    page.press("Drive")
    page.has("seat-line", "operator: Ada")


def test_a_second_operator_is_refused_with_a_sentence_and_sits_down_when_the_seat_is_free(server, page):
    bob = server.does(server.ground.operator(name="Bob", token=TOKEN))
    page.join(token=TOKEN)
    page.has("notice-sentence", "Bob drives the robot; ask for a release, or watch. The page keeps trying by itself.")
    page.has("notice-title", "OCCUPIED")
    page.screenshot(PICTURES / "occupied.png")
    page.press("Watch meanwhile")
    page.has("notice-sentence", "You watch. Bob drives.")
    page.press("Take the seat")
    page.has("notice-sentence", "Bob drives the robot")
    page.key("Space")
    page.until(lambda: [name for name, *_ in server.ground.buttons] == ["stop"], "a watcher's stop is done")
    server.does(bob.say(Release()))
    page.has("seat-line", "operator: nobody")
    page.press("Take the seat")
    page.has("seat-line", "you drive · operator: Ada")
    server.does(bob.close())


def test_a_page_of_another_version_says_what_to_do(server, page, monkeypatch):
    monkeypatch.setattr(protocol, "VERSION", 2)
    page.join(token=TOKEN)
    page.has("door-said", "the page is older: reload it")


def test_keys_mouse_and_wheel_are_the_hands(server, page):
    page.join(token=TOKEN)
    page.until(lambda: server.ground.samples, "samples come")
    assert newest(server).right.p == (0.2, 1.1, -0.4) and not newest(server).right.clutch
    assert newest(server).head.p == (0.0, 1.6, 0.0) and newest(server).glove is None
    page.drag((300, 500), (400, 400))
    page.key("KeyC", up=False)
    page.until(lambda: newest(server).right.clutch, "C is the clutch")
    assert newest(server).right.p == (0.2, 1.1, -0.4), "what was dragged with an open clutch counts for nothing"
    assert not newest(server).left.clutch
    page.drag((300, 500), (400, 400))
    # 0.6 mm a pixel; the page's upper edge is up
    page.until(
        lambda: newest(server).right.p == pytest.approx((0.26, 1.16, -0.4), abs=2e-3), "the hand goes as the mouse"
    )
    page.key("KeyC", down=False)
    page.until(lambda: not newest(server).right.clutch, "the clutch is open")
    assert newest(server).right.p == (0.2, 1.1, -0.4)
    for code, stick in (
        ("KeyW", (1, 0, 0)), ("KeyS", (-1, 0, 0)), ("KeyA", (0, 1, 0)), ("KeyD", (0, -1, 0)), ("KeyQ", (0, 0, 1)), ("KeyE", (0, 0, -1)),
    ):  # fmt: skip
        page.key(code, up=False)
        page.until(lambda: newest(server).stick == stick, f"{code} drives")
        page.key(code, down=False)
    page.key("KeyF", up=False)
    page.until(lambda: newest(server).right.trigger == 1.0, "F closes")
    page.key("KeyF", down=False)
    assert newest(server).left.trigger == 0.0
    page.key("Digit2")
    page.key("KeyC", up=False)
    page.until(lambda: newest(server).left.clutch and not newest(server).right.clutch, "2 chooses the left hand")
    # A window that nobody looks at is held by nobody.
    page.evaluate("dispatchEvent(new Event('blur'))")
    page.until(lambda: not newest(server).left.clutch, "the clutch is let go")
    page.key("KeyC", down=False)
    samples = [sample for _, sample, _ in server.ground.samples]
    assert all(b.seq > a.seq for a, b in itertools.pairwise(samples))


def test_every_button_is_said_and_the_stop_by_space_escape_and_mouse(server, page):
    page.join(token=TOKEN)
    page.until(lambda: server.ground.samples, "samples come")
    said = server.ground.buttons
    for label in ("Home arms", "Precision", "Texture scan", "Resume", "Reset fault", "E-STOP"):
        page.press(label)
    page.key("Space")
    page.key("Escape")
    names = ["home", "precision", "texture_scan", "resume", "reset_fault", "stop", "stop", "stop"]
    page.until(lambda: len(said) == len(names), "all of them are heard")
    assert [name for name, *_ in said] == names and all(value for _, value, _ in said)
    # By the keyboard alone: the focus is on the button that was pressed last, and Enter presses it, Space never does.
    page.evaluate("[...document.querySelectorAll('#menu button')][0].focus()")
    page.key("Enter")
    page.key("Space")
    page.until(lambda: [name for name, *_ in said[8:]] == ["home", "stop"], "Enter presses, Space stops")
    said[0][2](Texture(0.42, 180.0, None))
    page.has("texture-line", "Roughness 0.42 mm, 180 Hz")


def test_a_halt_is_read_with_its_code_and_a_force_reddens_the_frame(server, page):
    page.join(token=TOKEN)
    page.has("notice-title", "READY")
    page.screenshot(PICTURES / "desktop_ready.png")
    why = "stopped by the operator"
    server.show(
        dataclasses.replace(
            IDLE,
            state="fault",
            code=100,
            message=why,
            cue=(0.8, None),
            force=(24.0, None),
            supervisor=SupervisorWords("HALTED", 20, "stop was requested by the operator"),
        )  # fmt: skip
    )
    page.has("notice-sentence", "Code 100: Supervisor, code 20: Stop was requested by the operator.")
    page.has("notice-remedy", "Press Resume")
    page.until(
        lambda: "Code 100" in str(page.evaluate("document.getElementById('announcer').textContent")), "it is told"
    )
    page.until(
        lambda: page.evaluate("getComputedStyle(document.getElementById('cue-frame')).opacity") == "0.8", "it reddens"
    )
    page.has("arms", "24.0 N")
    page.screenshot(PICTURES / "desktop_halted.png")
    server.show(
        dataclasses.replace(
            IDLE, arm_mode=("protective stop", "holds"), arm_message=("The right arm is pressed away", "")
        )
    )
    page.has("notice-sentence", "The right arm is pressed away.")


def test_a_lost_network_is_told_and_the_page_comes_back_by_itself(server, page):
    async def begin():
        return await Network(server.ground.port).__aenter__()

    network = server.does(begin())
    page.go(f"{network.url}/#token={TOKEN}")
    page.join(token=TOKEN)
    page.has("seat-line", "you drive")
    first = server.does(_session(server))
    page.key("KeyC", up=False)
    page.until(lambda: server.ground.samples and newest(server).right.clutch, "clutched")
    server.loop.call_soon_threadsafe(network.go)
    page.has("notice-title", "LINK SILENT")
    page.has("notice-title", "LINK LOST")
    page.screenshot(PICTURES / "link_lost.png")
    page.key("Space")
    page.has("notice-remedy", "The stop will be said first when the link is back")
    count = len(server.ground.samples)
    began = time.monotonic()
    server.loop.call_soon_threadsafe(network.come_back)
    page.until(lambda: len(server.ground.samples) > count, "samples come again")
    seconds = time.monotonic() - began
    (PICTURES / "rejoin.json").write_text(json.dumps({"rejoin_s": round(seconds, 2)}))
    assert server.does(_session(server)) != first and "stop" in [name for name, *_ in server.ground.buttons]
    fresh = [sample for session, sample, _ in server.ground.samples[count:] if session != first]
    assert fresh and not any(sample.right.clutch for sample in fresh), "nothing is clutched by a page that came back"
    page.key("KeyC", down=False)
    server.does(network.__aexit__())


async def _session(server):
    await asyncio.sleep(0)
    return server.ground.server.operator.session


def test_the_training_is_timed_and_ticks_off_what_it_sees(server, page):
    page.join(token=TOKEN)
    page.has("notice-title", "READY")
    page.press("Training")
    page.has("training-body", "1. Distance of the eyes")
    for _ in range(6):
        page.press("Done, next step")
    page.has("training-body", "7. Homing")
    server.show(dataclasses.replace(IDLE, arm_mode=("goes home", "goes home")))
    page.has("arms", "goes home")
    time.sleep(0.5)
    server.show(IDLE)
    page.has("training-body", "Done: the page has seen it.")
    page.screenshot(PICTURES / "training.png")
    page.press("Back")
    page.has("training-body", "6. Clutching")
    page.press("Done, next step")
    for _ in range(6):
        page.press("Skip the step")
    page.has("training-body", "Summary")
    page.screenshot(PICTURES / "training_summary.png")
    page.evaluate("URL.createObjectURL = blob => {blob.text().then(text => window.saved = text); return 'data:,'}; 0")
    page.press("Save as JSON")
    saved = json.loads(page.until(lambda: page.evaluate("window.saved"), "the summary is saved"))
    outcomes = [step["outcome"] for step in saved["steps"]]
    assert outcomes == ["confirmed"] * 6 + ["detected"] + ["skipped"] * 5
    assert saved["planned_minutes"] == 45 and saved["operator"] == "Ada" and saved["robot"] == "avatar"
    page.press("End the training")
    page.key("F1")
    page.has("help-table", "Emergency stop")
    page.screenshot(PICTURES / "help.png")


def test_two_eyes_come_by_webrtc_and_samples_go_by_its_channel(server, page):
    page.join(token=TOKEN)
    page.until(
        lambda: server.ground.server.watched() == {"left_eye", "right_eye", "side"}, "the page asks for every camera"
    )

    def shows():
        for name, grey in (("left_eye", 90), ("right_eye", 120), ("side", 200)):
            server.loop.call_soon_threadsafe(server.ground.server.picture, name, jpeg(grey), "jpeg", 0.0)
        return page.evaluate(
            "document.querySelectorAll('#eye video').length === 1 && document.querySelector('#eye video').videoWidth"
        )

    assert page.until(shows, "the picture of the eye") == 160
    page.until(
        lambda: shows() and page.evaluate("document.querySelectorAll('#side-pictures video').length") == 1,
        "the side camera",
    )
    page.has("numbers", "data channel")
    count = len(server.ground.samples)
    page.until(lambda: len(server.ground.samples) > count, "samples come on the channel")
    page.screenshot(PICTURES / "desktop_video.png")
    page.press("Side cameras")
    page.until(lambda: server.ground.server.watched() == {"left_eye", "right_eye"}, "the eyes alone")


def test_in_the_headset_each_eye_sees_its_own_picture(server, page):
    page.evaluate("device.stereoEnabled = true; 0")
    page.size(1000, 640)
    page.join(token=TOKEN)
    page.until(lambda: server.ground.server.watched() == {"left_eye", "right_eye", "side"}, "the page asks for cameras")
    page.press("Enter VR")
    page.until(lambda: page.evaluate("!!device.activeSession"), "the headset shows the page")

    def brightness():
        """Of both halves of what is seen, around the middle of each."""
        for name, grey in (("left_eye", 70), ("right_eye", 170), ("side", 230)):
            server.loop.call_soon_threadsafe(server.ground.server.picture, name, jpeg(grey), "jpeg", 0.0)
        seen = pixels(page.screenshot(PICTURES / "vr_video.png"))
        height, width = seen.shape
        rows = slice(int(0.45 * height), int(0.5 * height))
        return [float(seen[rows, int(x * width) - 20 : int(x * width) + 20].mean()) for x in (0.25, 0.75)]

    page.until(lambda: np.allclose(brightness(), (70, 170), atol=15), "each eye sees its own camera")
    page.until(lambda: newest(server).head and newest(server).right, "samples come from the headset")
    assert newest(server).head.p == pytest.approx((0.0, 1.6, 0.0)) and newest(server).left.p[0] < 0.0
    page.evaluate("device.activeSession.end()")
    page.size(1280, 860)
    page.has("numbers", "your eyes")
    page.press("Training")
    page.has("training-body", "Done: the page has seen it.")


def test_a_headset_that_sleeps_says_nothing(server, page):
    page.evaluate("device.stereoEnabled = false; 0")
    page.join(token=TOKEN)
    page.press("Enter VR")
    page.until(lambda: page.evaluate("!!device.activeSession"), "the headset shows the page")
    page.until(lambda: server.ground.samples, "samples come")
    page.evaluate("device.updateVisibilityState('hidden')")
    page.until(lambda: page.evaluate("device.visibilityState") == "hidden", "it sleeps")
    time.sleep(0.3)
    count = len(server.ground.samples)
    time.sleep(0.5)
    assert len(server.ground.samples) == count
    assert server.does(_session(server)), "the seat is kept"
    page.evaluate("device.updateVisibilityState('visible')")
    page.until(lambda: len(server.ground.samples) > count, "it goes on by itself")
    page.evaluate("device.activeSession.end()")


def pixels(png):
    """Brightness of a picture (height, width)."""
    return av.CodecContext.create("png", "r").decode(av.Packet(png))[0].to_ndarray(format="gray")


def test_every_text_can_be_read_and_every_button_has_a_name(page):
    """Contrast of WCAG 2.1: 4.5 of text, of every element that shows some."""
    page.evaluate("document.getElementById('training').hidden = false; document.getElementById('help').hidden = false")
    wrong = json.loads(str(page.evaluate(CONTRAST)))
    assert not wrong, wrong
    nameless = page.evaluate(
        "[...document.querySelectorAll('button')].filter(b => !b.innerText.trim() && !b.hidden && b.offsetParent).length"
    )
    assert nameless == 0


CONTRAST = """
(() => {
  const light = c => { const [r, g, b] = c.map(v => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4 });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b };
  const colour = text => text.match(/[\\d.]+/g).map(Number);
  const ground = e => { for (; e; e = e.parentElement) { const c = colour(getComputedStyle(e).backgroundColor);
    if (c.length === 3 || c[3] > 0.7) return c.slice(0, 3) } return [16, 21, 26] };
  const wrong = [];
  for (const e of document.querySelectorAll('body *')) {
    const words = [...e.childNodes].filter(n => n.nodeType === 3 && n.textContent.trim()).map(n => n.textContent.trim()).join(' ');
    if (!words || !e.offsetParent || e.disabled || e.classList.contains('unseen')) continue;
    const [a, b] = [light(colour(getComputedStyle(e).color).slice(0, 3)), light(ground(e))].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) wrong.push(`${words.slice(0, 30)}: ${((a + 0.05) / (b + 0.05)).toFixed(2)}`);
  }
  return JSON.stringify(wrong);
})()
"""
