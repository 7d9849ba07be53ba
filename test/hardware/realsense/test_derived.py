"""What is made of images has threads of its own: order, what is left out, a clean end."""

import gc
import threading
import time
import weakref

import numpy as np
import pytest

pytest.importorskip("pyrealsense2")

from hardware.link import State
from hardware.realsense import derived
from hardware.realsense.camera import emulated
from hardware.realsense.device import Settings
from hardware.realsense.frame_link import FramePort
from hardware.realsense.latest import LatestWins
from hardware.realsense.processing import PointCloud, cloud_points


class Item:
    """Weakly referable."""

    def __init__(self, number):
        self.number = number


class Slow:
    """Work that goes on when the test says so."""

    def __init__(self):
        self.begun, self.done, self.go = [], [], threading.Semaphore(0)

    def __call__(self, item):
        self.begun.append(item.number)
        assert self.go.acquire(timeout=60.0)
        self.done.append(item.number)


def test_the_newest_wins_and_what_is_left_out_is_counted(patiently):
    work, skips = Slow(), []
    worker = LatestWins(work, lambda: skips.append(1))
    worker.offer(Item(0))
    patiently(lambda: work.begun == [0])
    for n in range(1, 6):
        worker.offer(Item(n))
    assert len(skips) == 4 and not worker.idle  # 5 waits, 1 to 4 were replaced
    work.go.release()
    patiently(lambda: work.begun == [0, 5])
    worker.offer(Item(6))
    work.go.release(2)
    patiently(lambda: worker.idle)
    assert work.done == [0, 5, 6] and len(skips) == 4
    worker.close()


def test_who_waits_loses_nothing(patiently):
    done = []
    worker = LatestWins(lambda n: (time.sleep(0.002), done.append(n)), lambda: pytest.fail("left out"))
    for n in range(50):
        worker.offer(n, wait=True)
    patiently(lambda: worker.idle)
    worker.close()
    assert done == list(range(50))


def test_closing_finishes_what_is_begun_and_forgets_what_waits(patiently):
    work = Slow()
    worker = LatestWins(work)
    items = [Item(0), Item(1)]
    references = [weakref.ref(item) for item in items]
    worker.offer(items.pop(0))
    patiently(lambda: work.begun == [0])
    worker.offer(items.pop(0))
    closing = threading.Thread(target=worker.close)
    closing.start()
    time.sleep(0.05)
    assert closing.is_alive()  # the work is not torn off
    work.go.release()
    closing.join(60.0)
    worker.offer(Item(2))
    gc.collect()
    assert work.begun == work.done == [0] and not any(reference() for reference in references) and worker.idle


def test_a_mistake_in_the_work_is_handed_on_and_keeps_nobody_waiting(patiently):
    worker = LatestWins(lambda n: 1 / n)
    worker.check()
    worker.offer(0)
    patiently(lambda: worker.idle)
    with pytest.raises(ZeroDivisionError):
        worker.check()
    worker.offer(1, wait=True)
    worker.offer(2, wait=True)
    worker.close()


def feed(camera, small, device, begin, end):
    """Pairs of images; only few are ever under way, so that the SDK has room for all of them."""
    for k in range(begin, end):
        device.until(lambda k=k: len(device.got["depth"]) >= k - 2)
        camera.push("depth", np.full((240, 424), 1000 + k, np.uint16), 33.3 * k, small)
        camera.push("color", np.full((240, 424, 3), k % 256, np.uint8), 33.3 * k, small)
        time.sleep(0.005)


def test_depth_and_colour_are_paired_from_the_first_though_the_camera_has_been_on_for_ten_minutes(
    collect, small, tmp_path, monkeypatch
):
    """Untold, the SDK takes number / time for the rate and pairs nothing before image 10 000."""
    monkeypatch.setattr("hardware.realsense.device.SHORTEST_SILENCE", 60.0)
    port, end, n = FramePort(tmp_path / "camera", "d435i", "7"), time.monotonic() + 60.0, 0
    port.alive(35.0, 33.0)
    images = {"depth": np.full((240, 424), 1000, np.uint16), "color": np.zeros((240, 424, 3), np.uint8)}
    device = collect(
        emulated(tmp_path / "camera"), Settings(video={"depth": small, "color": small}, align=True), run=False
    )
    device.start()
    device.enable()
    while len(device.got["aligned_depth_to_color"]) < 10 and n < 1000:
        assert time.monotonic() < end, f"{device.state} {device.last_error}"
        port.alive(35.0, 33.0)
        if port.wanted().keys() >= images.keys():
            n += 1
            for stream, image in images.items():
                port.write(stream, n, 600_000.0 + 1e3 / 30.0 * n, image, width=424, height=240)
        time.sleep(0.01)
    port.close()
    assert len(device.got["aligned_depth_to_color"]) >= 10


def test_slow_clouds_delay_no_image(hand_fed, collect, small, monkeypatch):
    """Every image comes while a cloud is made; of the clouds those that there is time for, in order, the others are counted."""
    monkeypatch.setattr("hardware.realsense.device.SHORTEST_SILENCE", 60.0)  # the hand that feeds may be held up
    go = threading.Event()

    def slow(*what):
        assert go.wait(60.0)
        return cloud_points(*what)

    monkeypatch.setattr(derived, "cloud_points", slow)
    camera, pairs = hand_fed(), 60
    device = collect(lambda: camera, Settings(video={"depth": small, "color": small}, align=True, cloud=PointCloud()))
    feed(camera, small, device, 0, pairs // 2)
    assert not device.got["Cloud"]  # all these images came during the first one
    go.set()
    feed(camera, small, device, pairs // 2, pairs)
    device.until(lambda: len(device.got["depth"]) >= 0.9 * pairs)
    counters = device.counters

    def count(name):
        return counters.as_dict().get(name, 0)

    device.until(
        lambda: (
            len(device.got["Cloud"]) + count("cloud_skipped")
            == len(device.got["aligned_depth_to_color"]) + count("align_skipped")
        )
    )
    clouds, aligned = device.got["Cloud"], device.got["aligned_depth_to_color"]
    assert (
        count("cloud_skipped") > 0
        and 0 < len(clouds) < len(aligned)
        and len(clouds) + count("cloud_skipped") >= 0.8 * pairs
    )
    for records in (clouds, aligned):
        assert (np.diff([record.t for record in records]) > 0.0).all()
    # Each was made of its own image: depth tells which.
    depth = {image.t: image.pixels[0, 0] * image.depth_units for image in device.got["depth"]}
    assert all(abs(cloud.points[0, 2] - depth[cloud.t]) < 1e-6 for cloud in clouds)
    assert all(image.pixels[120, 212] * image.depth_units == pytest.approx(depth[image.t]) for image in aligned)


def test_stopping_in_the_middle_of_a_cloud(hand_fed, collect, small, monkeypatch):
    begun, go = threading.Event(), threading.Event()

    def slow(*what):
        begun.set()
        assert go.wait(60.0)
        return cloud_points(*what)

    monkeypatch.setattr(derived, "cloud_points", slow)
    monkeypatch.setattr("hardware.realsense.device.SHORTEST_SILENCE", 60.0)
    camera = hand_fed()
    device = collect(lambda: camera, Settings(video={"depth": small, "color": small}, align=True, cloud=PointCloud()))
    feed(camera, small, device, 0, 10)
    assert begun.wait(60.0)
    threading.Timer(0.3, go.set).start()
    assert device.disable(60.0) and device.state is State.READY
    made = len(device.got["Cloud"])
    assert made == 1 and not [t for t in threading.enumerate() if t.name in ("camera cloud", "camera align")]
    time.sleep(0.2)
    assert len(device.got["Cloud"]) == made


def test_a_mistake_on_a_thread_opens_the_camera_anew(hand_fed, collect, small, monkeypatch):
    def wrong(*what):
        monkeypatch.setattr(derived, "cloud_points", cloud_points)
        raise RuntimeError("no such thing")

    monkeypatch.setattr(derived, "cloud_points", wrong)
    camera = hand_fed()
    device = collect(lambda: camera, Settings(video={"depth": small, "color": small}, cloud=PointCloud()))

    def push(n):
        camera.push("depth", np.full((240, 424), 1000 + n, np.uint16), 33.3 * n, small)
        camera.push("color", np.full((240, 424, 3), n % 256, np.uint8), 33.3 * n, small)

    camera.push_until(lambda: device.counters.as_dict().get("reconnects", 0) == 1, push)
    assert device.counters.last_error == "RuntimeError: no such thing"
    camera.push_until(lambda: device.got["Cloud"], push)
