"""What does a camera cost, stage by stage, and what do two cores attain?

    ./refit bench camera

Depth and colour at 30 Hz from the emulated camera through the node to a subscriber, each a process of its own; then
848x480 with depth aligned to colour and a textured cloud. Rates hold for a machine on which nothing else runs. CPU
times hold on a busy one too, and the attainable rate follows from them. Rival in the same run: a message that is filled
from a list.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from experiments.problems.device_bench import DeviceBench, Played, Usage
from nodes.framework.heap import keep_freed_memory
from reporting.checks import Result
from reporting.progress import SilentProgress
from scripting.own_domain import own_domain

SOURCE = "own target"
SECONDS = {"quick": 4.0, "full": 15.0}
ROUNDS = {"quick": 20, "full": 100}
RATE, CORES = 30.0, 2
#: stage -> CPU time that it may take for one pair of 848x480 images [ms]
BUDGET = {
    "frames into the SDK": 2.0,
    "records out of the SDK": 2.0,
    "aligned depth": 10.0,
    "cloud, vertices by the SDK": 6.0,
    "cloud, colours and buffer": 8.0,
    "messages filled": 3.0,
}


def run(progress=SilentProgress(), size: str = "full", seed: int = 0) -> Result:
    """The node with two images, the node with all that is made of them, the stages one by one, the message alone."""
    keep_freed_memory()  # as the node does; a receiver's pages are not the camera's either
    result = Result("bench_camera", seed=seed, size=size)
    for part in progress.track((two_images, everything, stages, assignment), "parts"):
        part(result, size, seed)
    return result


def two_images(result: Result, size: str, seed: int) -> None:
    """640x480, colour and depth."""
    found = _camera(SECONDS[size], seed, "640x480x30")
    result.check("640x480: colour images received per second", found["color Hz"], 29.5, ">=", "Hz", SOURCE)
    result.check(
        "640x480: delivery to publication of images, 95 %", found["image publish p95 ms"], 15.0, "<=", "ms", SOURCE
    )
    result.check("640x480: CPU share of the node", found["node CPU share"], 0.5, "<=", "1", SOURCE)
    result.detail("640x480, two images", found)


def everything(result: Result, size: str, seed: int) -> None:
    """848x480 with aligned depth and textured clouds: rates, latencies, CPU time of each process and what follows from it."""
    found = _camera(SECONDS[size], seed, "848x480x30", **{"align_depth.enable": True, "pointcloud.enable": True})
    what = "848x480, aligned and textured: "
    for name, topic in (("colour images", "color"), ("aligned depth images", "aligned"), ("clouds", "cloud")):
        result.check(f"{what}{name} received per second", found[f"{topic} Hz"], 29.5, ">=", "Hz", SOURCE)
    for name, topic, limit in (("images", "image", 15.0), ("clouds", "cloud", 40.0)):
        result.check(
            f"{what}delivery to publication of {name}, 95 %",
            found[f"{topic} publish p95 ms"],
            limit,
            "<=",
            "ms",
            SOURCE,
        )
    for process in ("emulator", "node", "subscriber"):
        result.check(
            f"{what}CPU time of the {process} for each pair received",
            found[f"{process} CPU ms"],
            1e3 * CORES / RATE,
            "<=",
            "ms",
            f"{CORES} cores at {RATE:g} Hz, for all three together",
        )
    spent = sum(found[f"{process} CPU ms"] for process in ("emulator", "node", "subscriber"))
    result.check(f"{what}rate at which {CORES} cores are full", 1e3 * CORES / spent, RATE, ">=", "Hz", SOURCE)
    result.check(
        f"{what}rate at which {CORES} cores are full, without the emulator",
        1e3 * CORES / (spent - found["emulator CPU ms"]),
        RATE,
        ">=",
        "Hz",
        SOURCE,
    )
    result.detail("848x480, aligned depth and textured cloud", found)


def stages(result: Result, size: str, seed: int) -> None:
    """What the node does with one pair of 848x480 images, stage by stage, in this process: median CPU time.

    What is left of the node's time is publishing (copies into the middleware), its executor and its threads' turns.
    """
    import pyrealsense2 as rs
    from builtin_interfaces.msg import Time

    from hardware.realsense.frame_link import Record
    from hardware.realsense.imager import DepthSensor, grain, holes
    from hardware.realsense.processing import PointCloud, cloud_points
    from hardware.realsense.profiles import MODELS, Mode
    from hardware.realsense.records import Cloud
    from hardware.realsense.scene import StillScene
    from hardware.realsense.software_camera import build_device, video_frame
    from hardware.realsense.streams import image_of
    from nodes.devices import realsense_messages as messages

    model, mode, rng = MODELS["d435i"], Mode(848, 480, 30), np.random.default_rng(seed)
    scene = StillScene(model)
    z = scene.view("depth", mode)[0]
    pixels = {
        "depth": DepthSensor(model, rng).measure(z, holes(z, model.nearest, model.farthest)),
        "color": grain(
            np.minimum(scene.view("color", mode)[1], 252), rng, rng.integers(0, 4, 2 * 848 * 480 * 3, dtype=np.uint8)
        ),
    }
    _device, sensors, profiles = build_device(model, "1")
    syncer = rs.syncer(2)
    for name in pixels:
        sensors[name].open([profiles[name, mode]])
        sensors[name].start(syncer)

    def feed(number: int) -> None:
        for name, image in pixels.items():
            payload = image.reshape(-1).view(np.uint8).copy()  # as it is read from the emulator's memory
            record = Record(name, number, number * 1e3 / RATE, 8500.0, 16.0, 848, 480, payload)
            profile = profiles[name, mode].as_video_stream_profile()
            frame = video_frame(record, model.stream(name).format, mode, profile, model.depth_units)
            sensors[name].on_video_frame(frame)

    align, cloud, how, lenses = rs.align(rs.stream.color), rs.pointcloud(), PointCloud(), {}
    spent: dict[str, list[float]] = {stage: [] for stage in BUDGET}
    number = 0
    while len(spent["messages filled"]) < ROUNDS[size]:
        number += 1
        _timed(spent["frames into the SDK"], lambda: feed(number))
        frames = syncer.wait_for_frames(5000)
        depth, color = frames.get_depth_frame(), frames.get_color_frame()
        if not depth or not color:  # the syncer's first sets
            continue

        def take(depth=depth, color=color):
            return [image_of(frame, name, 0.0, 0.0, lenses) for frame, name in ((depth, "depth"), (color, "color"))]

        def aligned(frames=frames):
            found = align.process(frames).get_depth_frame()
            return image_of(found, "aligned_depth_to_color", 0.0, 0.0, lenses)

        def vertices(depth=depth, color=color):
            cloud.map_to(color)
            return cloud.calculate(depth)

        def buffer(color=color):
            texture = np.asanyarray(points.get_texture_coordinates(2))
            return cloud_points(np.asanyarray(points.get_vertices(2)), texture, np.asanyarray(color.get_data()), how)

        images = _timed(spent["records out of the SDK"], take)
        images.append(_timed(spent["aligned depth"], aligned))
        points = _timed(spent["cloud, vertices by the SDK"], vertices)
        made = _timed(spent["cloud, colours and buffer"], buffer)

        def fill(images=images, record=Cloud(0.0, 0.0, made, len(made), 1, True, True)):
            for image in images:
                messages.image(image, Time(), "camera")
                messages.camera_info(image.lens, Time(), "camera")
            messages.point_cloud(record, Time(), "camera")

        _timed(spent["messages filled"], fill)
    for name in pixels:
        sensors[name].stop()
        sensors[name].close()
    for stage, times in spent.items():
        found = 1e3 * float(np.median(times))
        result.check(f"848x480, CPU time of one pair: {stage}", found, BUDGET[stage], "<=", "ms", SOURCE)
    result.detail("one pair, least CPU time of a stage [ms]", {stage: 1e3 * min(t) for stage, t in spent.items()})
    result.detail("points of the cloud", len(made))


def _timed(times: list[float], work: Callable):
    """What `work` returns; the CPU time of this thread is added to `times` [s]."""
    begin = time.thread_time()
    made = work()
    times.append(time.thread_time() - begin)
    return made


def assignment(result: Result, size: str, seed: int) -> None:
    """CPU time to put one 640x480 colour image into a message: as the camera node does, from bytes, from a list."""
    from builtin_interfaces.msg import Time
    from sensor_msgs.msg import Image

    from hardware.realsense import records
    from nodes.devices.realsense_messages import image

    pixels = np.random.default_rng(seed).integers(0, 256, (480, 640, 3), dtype=np.uint8)
    record = records.Image("color", 0.0, 0.0, 1, 0.0, "system", pixels, "rgb8", lens=None)
    cost = {}
    for name, fill in (
        ("as the node does", lambda: image(record, Time(), "camera")),
        ("from bytes", lambda: setattr(Image(), "data", pixels.tobytes())),
        ("from a list", lambda: setattr(Image(), "data", pixels.ravel().tolist())),
    ):
        fill()
        times: list[float] = []
        for _ in range(10):
            _timed(times, fill)
        cost[name] = 1e3 * float(np.mean(times))
    result.check(
        "images: CPU time of a message filled from a list over ours, 640x480 colour",
        cost["from a list"] / cost["as the node does"],
        10.0,
        ">=",
        "1",
        "own target: never through Python lists",
    )
    result.detail("filling one message, CPU time [ms]", cost)


# -- the node ----------------------------------------------------------------------------------------


def _camera(seconds: float, seed: int, mode: str, **parameters) -> dict:
    """What a subscriber gets of the camera node, how late it was published, what each process spends."""
    camera = Played(
        "camera",
        "realsense",
        ("realsense",),
        {
            "device_source": "emulated",
            "emulator_link": "{link}",
            "depth_module.depth_profile": mode,
            "rgb_camera.color_profile": mode,
            **parameters,
        },
    )
    with (
        tempfile.TemporaryDirectory() as folder,
        own_domain() as domain,
        DeviceBench(Path(folder), [camera], domain, seed=seed) as bench,
    ):
        bench.up()
        pictures = _Pictures(bench)
        bench.listen(1.0)
        pids = {
            "emulator": bench.emulators["camera"].pid,
            "node": bench.processes["camera"].pid,
            "subscriber": os.getpid(),
        }
        before, cpu = Usage.of(pids["node"]), {name: _cpu(pid) for name, pid in pids.items()}
        seen, begin = dict(pictures.count), time.perf_counter()
        bench.listen(seconds)
        passed = time.perf_counter() - begin
        cpu = {name: _cpu(pid) - cpu[name] for name, pid in pids.items()}
        count = {name: n - seen[name] for name, n in pictures.count.items()}
        values = bench.health["camera"][-1].values
        grown = Usage.of(pids["node"]).memory - before.memory
    # Where a machine is too slow for all of them, this is the most that one pair with all that is made of it can cost.
    pairs = max(min(n for n in count.values() if n) if any(count.values()) else 0, 1)
    return {
        **{f"{name} Hz": n / passed for name, n in count.items()},
        **{
            f"{what} publish p{q} ms": float(values[f"{what}_publish_p{q}_ms"])
            for what in ("image", "cloud")
            for q in (50, 95)
        },
        **{f"{what} skipped": int(values.get(f"{what}_skipped", 0)) for what in ("align", "cloud")},
        **{f"{name} CPU ms": 1e3 * spent / pairs for name, spent in cpu.items()},
        "node CPU share": cpu["node"] / passed,
        "memory grown MB": grown / 1e6,
    }


class _Pictures:
    """Counts what comes, as a subscriber sees it."""

    def __init__(self, bench: DeviceBench):
        from sensor_msgs.msg import Image, PointCloud2

        self.count = {"color": 0, "aligned": 0, "cloud": 0}
        for name, kind, topic in (
            ("color", Image, "color/image_raw"),
            ("aligned", Image, "aligned_depth_to_color/image_raw"),
            ("cloud", PointCloud2, "depth/color/points"),
        ):
            # Serialised: what a Python subscriber spends on unpacking is not the camera's.
            bench.node.create_subscription(kind, f"camera/{topic}", lambda data, name=name: self._on(name), 5, raw=True)

    def _on(self, name: str) -> None:
        self.count[name] += 1


def _cpu(pid: int) -> float:
    """CPU time of a process [s]."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
