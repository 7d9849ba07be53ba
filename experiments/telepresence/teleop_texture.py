"""Are surfaces told apart, and measured rightly, by a depth camera that never touches them?

    ./refit experiment teleop_texture            # sixty surfaces of each kind
    ./refit experiment teleop_texture --quick    # eight of each

Five kinds of synthetic surfaces (smooth, gravel, grooves, cobbles, rock) are seen by the avatar's wrist camera from 0.25 to 0.35 m, tilted
by up to 25 degrees in any direction and turned by any angle: ten pictures each, with the noise of an L515 and in whole millimetres. A
height map of 10 cm is made of them, its roughness and dominant wave are compared with those of the true heights of the same square, and
the kind is named by what was learnt from other surfaces. The baseline takes the roughness alone, and the kind whose mean is nearest, learnt
from the same surfaces. Then what it takes is made worse: fewer pictures, places nearer and farther than those that were learnt from, and pixels that average over
their neighbours, as those of real cameras do.

The surfaces are ours: four kinds are between 0.4 and 1 mm rough, so that roughness does not tell them apart. Real stones were not scanned.
Pictures are in closed form (a test compares them with those that MuJoCo draws), and the lens of the model camera is perfect.
"""

from __future__ import annotations

from concurrent.futures import Executor
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np

from reporting import PALETTE, Progress, Report, Result, SilentProgress, figure
from sim_core.host.executors import spread
from sim_core.telepresence.texture.cues import Cue, cue_of, just_noticeable, sound_levels
from sim_core.telepresence.texture.depth_pictures import depth_pictures, surface_view
from sim_core.telepresence.texture.height_map import height_map
from sim_core.telepresence.texture.recognition import features, known_surfaces, shipped_samples
from sim_core.telepresence.texture.scans import PART, PICTURES, TILT, random_scan, true_heights
from sim_core.telepresence.texture.scans import K as LENS
from sim_core.telepresence.texture.spectrum import FLOOR, texture_of_heights, texture_of_map
from sim_core.telepresence.texture.surfaces import KINDS, texture_surface

SOURCE = "own target: three or more synthetic surfaces, 0.9 of them named rightly"
OWN = "own target"
#: surfaces of each kind, the first of them, and surfaces of each kind where it is made worse
SIZES, FIRST, WORSE = {"quick": 8, "full": 60}, 1000, {"quick": 2, "full": 10}
#: what is made worse: name -> distance [m] (0: as in all scans), pictures, and standard deviation over which a pixel averages [pixel]
HARDER: dict[str, tuple[float, int, float]] = {
    "four pictures": (0.0, 4, 0.0),
    "0.245 m": (0.245, PICTURES, 0.0),
    "0.40 m": (0.40, PICTURES, 0.0),
    "0.44 m": (0.44, PICTURES, 0.0),
    "pixels that average over 1": (0.3, PICTURES, 1.0),
    "pixels that average over 2": (0.3, PICTURES, 2.0),
}
#: kinds whose dominant wave is known
WAVY = ("gravel", "grooves", "cobbles")
#: amplitude that all cues are given where they are compared: what tells them apart is the kind
SAME = 0.0007


@dataclass(frozen=True)
class Seen:
    """One scan.

    Attributes:
        kind, seed: of the surface. named: its kind as it was told, "" for none. certainty: of that. baseline: kind by roughness alone.
        distance: [m]. tilt: [rad]. roughness, true_roughness: [m]. frequency, true_frequency, drawn_frequency: dominant, as it
            was measured, of the true heights of the same square, and as the surface was drawn [1/m]; 0: none. noise: of a height [m].
        error: root mean square of measured less true heights [m].
    """

    kind: str
    seed: int
    named: str
    certainty: float
    baseline: str
    distance: float
    tilt: float
    roughness: float
    true_roughness: float
    frequency: float
    true_frequency: float
    drawn_frequency: float
    noise: float
    error: float


def seen(job: tuple[str, int, float, int, float]) -> Seen:
    """A scan of a surface: its kind, seed, distance [m] (0: any that was learnt from), pictures, blur [pixel]."""
    kind, seed, distance, pictures, blur = job
    surface, rng = texture_surface(kind, seed), np.random.default_rng([seed, KINDS.index(kind), pictures, 41])
    if distance:
        X = surface_view(distance, TILT * float(np.sqrt(rng.uniform())), *map(float, rng.uniform(0.0, 2.0 * np.pi, 2)))
        K, shape = _lens(distance), _shape(distance)
        scan = height_map(depth_pictures(surface, X, K, shape, pictures, rng, blur=blur), K)
    else:
        found = random_scan(surface, rng, pictures)
        X, scan = found.X_CS, found.measured
    texture, truth = texture_of_map(scan), true_heights(surface, X, scan)
    true, told = texture_of_heights(truth, scan.pitch), known_surfaces().recognise(texture)
    nearest = {name: abs(features(texture)[0] - rows[:, 0].mean()) for name, rows in shipped_samples().items()}
    return Seen(
        kind,
        seed,
        told.name,
        told.certainty,
        min(nearest, key=nearest.__getitem__),
        scan.distance,
        scan.tilt,
        texture.roughness,
        true.roughness,
        texture.frequency,
        true.frequency,
        surface.frequency,
        scan.noise,
        float(np.nanstd(scan.heights - truth)),
    )


def _shape(distance: float) -> tuple[int, int]:
    """Part of a picture that a nearer surface needs (h, w)."""
    side = PART if distance > 0.25 else round(PART * 0.27 / distance)
    return side, side


def _lens(distance: float) -> np.ndarray:
    """The same lens, about the middle of that part."""
    lens = LENS.copy()
    lens[:2, 2] = 0.5 * (_shape(distance)[0] - 1)
    return lens


def run(
    size: str = "full",
    seed: int = 0,
    progress: Progress = SilentProgress(),
    run_directory: Path | None = None,
    executor: Executor | None = None,
) -> Result:
    """Scan all surfaces, name them, and compare the cues.

    Returns:
        Result with the confusion of kinds, errors, and acceptance checks.
    """
    result = Result("teleop_texture", seed=seed, size=size)
    first = FIRST + 1000 * seed
    jobs = [(kind, first + k, 0.0, PICTURES, 0.0) for kind in KINDS for k in range(SIZES[size])]
    worse = [
        (kind, first + 500 + k, distance, pictures, blur)
        for distance, pictures, blur in HARDER.values()
        for kind in KINDS
        for k in range(WORSE[size])
    ]
    with progress.stage("surfaces", total=len(jobs) + len(worse)) as stage:
        found = spread(seen, [*jobs, *worse], executor, lambda done: stage.advance())
    scans, rest = found[: len(jobs)], found[len(jobs) :]
    each = len(KINDS) * WORSE[size]
    harder = {name: rest[k * each : (k + 1) * each] for k, name in enumerate(HARDER)}
    cues = {kind: cue_of(kind, SAME, 0.0) for kind in KINDS}
    _judge(result, scans, harder, cues)
    if run_directory is not None:
        report(result, scans, harder, cues, first).write(Path(run_directory) / "report.html")
    return result


def share(scans: list[Seen], by: str = "named") -> float:
    """Of scans that were named rightly."""
    return float(np.mean([getattr(one, by) == one.kind for one in scans]))


def _judge(result: Result, scans: list[Seen], harder: dict[str, list[Seen]], cues: dict[str, Cue]) -> None:
    result.check("named rightly", share(scans), 0.9, ">=", "1", SOURCE)
    for kind in KINDS:
        result.check(f"{kind}: named rightly", share([s for s in scans if s.kind == kind]), 0.9, ">=", "1", SOURCE)
    for what in ("distance", "tilt"):
        ordered = sorted(scans, key=lambda one: getattr(one, what))
        worst = min(share(list(part)) for part in np.array_split(np.array(ordered, object), 3))
        result.check(f"named rightly in the worst third by {what}", worst, 0.9, ">=", "1", SOURCE)
    plain = share(scans, "baseline")
    result.detail("named rightly by roughness alone", plain)
    result.check("gained over roughness alone", share(scans) - plain, 0.2, ">=", "1", OWN)
    rough = [s for s in scans if s.kind != "smooth"]
    error = np.abs([s.roughness / s.true_roughness - 1.0 for s in rough])
    result.check(
        "roughness of rough surfaces: relative error, p95", float(np.quantile(error, 0.95)), 0.1, "<=", "1", OWN
    )
    smooth = [s.roughness for s in scans if s.kind == "smooth"]
    result.check("roughness that is read on a smooth surface, most", 1e3 * max(smooth), 1e3 * FLOOR, "<=", "mm", OWN)
    wavy = [s for s in scans if s.kind in WAVY]
    error = np.abs([s.frequency / s.true_frequency - 1.0 for s in wavy if s.true_frequency])
    result.check(
        "dominant wave beside the true heights': relative error, p95",
        float(np.quantile(error, 0.95)),
        0.05,
        "<=",
        "1",
        OWN,
    )
    error = np.abs([s.frequency / s.drawn_frequency - 1.0 for s in wavy])
    result.check(
        "dominant wave beside the one drawn: relative error, p95", float(np.quantile(error, 0.95)), 0.1, "<=", "1", OWN
    )
    still = [s.frequency == 0.0 for s in scans if s.kind in ("smooth", "rock")]
    result.check("smooth and rock: no wave stands out", float(np.mean(still)), 0.9, ">=", "1", OWN)
    pairs = list(combinations(KINDS, 2))
    felt = min(just_noticeable(cues[a], cues[b]) for a, b in pairs)
    result.check("vibrations of two kinds apart, least", felt, 1.0, ">=", "just noticeable differences", OWN)
    heard = min(_apart(cues[a], cues[b]) for a, b in pairs)
    result.check("sounds of two kinds apart, least", heard, 0.3, ">=", "share of power in other thirds of octaves", OWN)
    result.detail("median error of a height [mm]", 1e3 * float(np.median([s.error for s in scans])))
    result.detail("median noise of a height [mm]", 1e3 * float(np.median([s.noise for s in scans])))
    for name, those in harder.items():
        result.detail(f"named rightly, {name}", share(those))
        result.detail(f"roughness over the true one of gravel, {name}", _gravel(those))


def _gravel(scans: list[Seen]) -> float:
    """Median of roughness over the true one, of what is finest."""
    return float(np.median([s.roughness / s.true_roughness for s in scans if s.kind == "gravel"]))


def _apart(one: Cue, other: Cue) -> float:
    """Share of the power of two sounds that lies in other thirds of octaves, 0 to 1."""
    return 0.5 * float(np.abs(sound_levels(one.sound) - sound_levels(other.sound)).sum())


def report(
    result: Result, scans: list[Seen], harder: dict[str, list[Seen]], cues: dict[str, Cue], first: int
) -> Report:
    """The page: targets, confusion, maps beside the true ones, spectra, errors, cues."""
    page = Report("What surfaces feel like", f"{result.size}, seed {result.seed}")
    page.text(__doc__.split("\n\n", 2)[2])
    page.section("Targets").checks(result)
    page.section(
        "Confusion of kinds", "Rows: what it was. Columns: what was said, by all features and by roughness alone."
    )
    for by, title in (("named", "all features"), ("baseline", "roughness alone")):
        said = [*KINDS, ""]
        page.table(
            [title, *KINDS, "none"],
            [
                [kind, *(sum(s.kind == kind and getattr(s, by) == name for s in scans) for name in said)]
                for kind in KINDS
            ],
        )
    page.section(
        "Height maps", "Of one surface of each kind: as it was measured, and the true heights of the same square [mm]."
    )
    fig, axes = figure(2, len(KINDS))
    spectra, plots = figure(1, 1)
    for column, (kind, colour) in enumerate(zip(KINDS, PALETTE)):
        surface = texture_surface(kind, first)
        scan = random_scan(surface, np.random.default_rng([first, KINDS.index(kind), PICTURES, 41]))
        truth, texture = true_heights(surface, scan.X_CS, scan.measured), texture_of_map(scan.measured)
        true = texture_of_heights(truth, scan.measured.pitch)
        for axis, heights in zip(axes[:, column], (scan.measured.heights, truth)):
            axis.imshow(1e3 * heights, vmin=-2.0, vmax=2.0, cmap="viridis", origin="lower", extent=(0, 100, 0, 100))
            axis.set_xticks([])
            axis.set_yticks([])
        axes[0, column].set_title(kind)
        axis = np.ravel(plots)[0]
        axis.loglog(texture.numbers[1:], 1e6 * np.maximum(texture.power[1:], 1e-13), color=colour, label=kind)
        axis.loglog(true.numbers[1:], 1e6 * np.maximum(true.power[1:], 1e-13), color=colour, linestyle=":")
    axes[0, 0].set_ylabel("measured")
    axes[1, 0].set_ylabel("true")
    page.figure(fig, "Squares of 10 cm; colours from -2 to 2 mm.")
    axis = np.ravel(plots)[0]
    axis.set_xlabel("wave number [1/m]")
    axis.set_ylabel("mean square in a ring [mm^2]")
    axis.set_ylim(1e-6, 2.0)
    axis.legend()
    page.section("Spectra", "Of the same surfaces; dotted: of their true heights. Below 1e-4 mm^2 a ring is noise.")
    page.figure(spectra, "Power by wave number.")
    page.section("Roughness and dominant wave", "Each point is a scan.")
    fig, axes = figure(1, 2)
    for kind, colour in zip(KINDS, PALETTE):
        mine = [s for s in scans if s.kind == kind]
        axes = np.ravel(axes)
        axes[0].plot(
            [1e3 * s.true_roughness for s in mine], [1e3 * s.roughness for s in mine], "o", color=colour, label=kind
        )
        if kind in WAVY:
            axes[1].plot([s.drawn_frequency for s in mine], [s.frequency for s in mine], "o", color=colour, label=kind)
    for axis, title, end in zip(axes, ("roughness [mm]", "dominant wave [1/m]"), (1.3, 180.0)):
        axis.plot([0.0, end], [0.0, end], color=PALETTE[6], linestyle=":")
        axis.set_xlabel(f"true {title}")
        axis.set_ylabel("measured")
    axes[0].legend()
    page.figure(fig, "What was measured over what was true.")
    page.section(
        "Cues",
        f"At a roughness of {1e3 * SAME:g} mm: vibration, and how many just noticeable differences two kinds are apart.",
    )
    page.table(
        ["kind", "vibration [Hz]", *KINDS],
        [
            [
                a,
                f"{cues[a].vibration:.0f}",
                *(f"{just_noticeable(cues[a], cues[b]):.1f}, {_apart(cues[a], cues[b]):.2f}" for b in KINDS),
            ]
            for a in KINDS
        ],
    )
    page.text("The second number is the share of two sounds' power that lies in other thirds of octaves.")
    page.section("Made worse")
    page.table(
        ["what", "named rightly", "roughness of gravel over the true one"],
        [[name, f"{share(those):.2f}", f"{_gravel(those):.2f}"] for name, those in harder.items()],
    )
    return page
