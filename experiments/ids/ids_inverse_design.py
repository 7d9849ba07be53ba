"""Lengths of a pendulum from pictures of it, and forecasts beside networks that know no mechanics.

    ./refit experiment ids_inverse_design          # needs a library that draws without a screen, as MuJoCo does

A pendulum of three links of 3 m swings in MuJoCo before a camera of 100 x 100 pixels. An encoder (two images to a state),
the differentiable simulator over 20 steps of 0.05 s, and a decoder (a state to an image) are fitted together, with the
simulator's lengths free, from 1, 5 and 0.5 m. Then states are forecast over 20 steps beyond the 800 frames of training, by
the simulator with the lengths found, by a graph network and by a plain network that learnt from the same frames' states.
All begin at the true state.

Published (Heiden, PhD thesis (USC 2022), section 2.2.3; arXiv 1905.10706): the lengths reach 3, 3, 3 after about 200
iterations; the graph network's pendulum keeps swinging up against the conservation of energy. No numbers. The swing, the
two images and the batch are ours.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from config.tiers import require
from reporting import PALETTE, TRUTH, Progress, Report, Result, SilentProgress, figure
from sim_core.host.offscreen import installed_back_end

if TYPE_CHECKING:
    from experiments.problems.ids_images import Fitted, Swing

TIERS = ("learning",)
SOURCE = "own target, after Heiden, PhD thesis (USC 2022), section 2.2.3"
START, LIMITS = (1.0, 5.0, 0.5), (0.2, 8.0)  # published; [m]
RELEASE = (0.9, 0.5, -0.4)  # [rad]
FRAMES, FORECASTS = 800, 40  # of training, published; forecasts begin at each of so many frames after them
ITERATIONS = 300
SEEDS = {"quick": 1, "full": 3}
OURS = "simulator"


def run(
    size: str = "full", seed: int = 0, progress: Progress = SilentProgress(), run_directory: Path | None = None
) -> Result:
    """The joint fit and the forecasts.

    Returns:
        Result whose checks hold the worst seed's lengths, errors and energies.
    """
    require("learning", "lengths from images")
    os.environ.setdefault("MUJOCO_GL", installed_back_end())  # before MuJoCo looks for a window
    import torch

    from experiments.problems.ids_forecasts import ChainNetwork, PlainNetwork, energy, forecast, taught
    from experiments.problems.ids_images import DT, HORIZON, LENGTH, fitted, seen
    from experiments.problems.ids_layer import chain_layer

    torch.set_num_threads(1)
    layer = chain_layer(3, DT, LIMITS)
    result = Result("ids_inverse_design", seed=seed, size=size)
    with progress.stage("images"):
        swing = seen(np.array(RELEASE), FRAMES + FORECASTS + HORIZON)
    fits: list[Fitted] = []
    rows: dict[str, list[tuple[float, float]]] = {OURS: [], "graph network": [], "plain network": []}
    starts = swing.x[FRAMES : FRAMES + FORECASTS]
    truth = np.stack([swing.x[FRAMES + k : FRAMES + k + HORIZON + 1] for k in range(FORECASTS)])
    scale, true_lengths = swing.x[:FRAMES].std(axis=0), np.full(3, LENGTH)
    with progress.stage("fits", total=SEEDS[size] * (ITERATIONS + 2)) as stage:
        for k in range(SEEDS[size]):
            fits.append(
                fitted(layer, swing, np.array(START), FRAMES, seed + k, ITERATIONS, done=lambda: stage.advance())
            )
            with torch.no_grad():
                ours = layer(torch.from_numpy(starts), torch.from_numpy(fits[-1].lengths[-1]), HORIZON).numpy()
            forecasts = {OURS: ours}
            for title, kind in (("graph network", ChainNetwork), ("plain network", PlainNetwork)):
                forecasts[title] = forecast(taught(kind, swing.x[:FRAMES], seed + k), starts, HORIZON)
                stage.advance()
            # Energies of the states that are forecast, of the pendulum that was filmed.
            begins = energy(truth[:, :1], true_lengths)
            for title, X in forecasts.items():
                off = np.sqrt(np.mean(((X - truth) / scale)[:, 1:] ** 2))
                drift = np.abs(energy(X, true_lengths) / begins - 1.0).max(axis=1)
                rows[title].append((float(off), float(np.median(drift))))
            if k == 0:
                first = forecasts
    off_lengths = [float(np.abs(one.lengths[-1] / LENGTH - 1.0).max()) for one in fits]
    result.check("error of lengths after 300 iterations", max(off_lengths), 0.03, "<=", "1", SOURCE)
    for title in ("graph network", "plain network"):
        ratio = max(mine[0] / other[0] for mine, other in zip(rows[OURS], rows[title]))
        result.check(f"error of forecasts beside the {title}'s", ratio, 0.25, "<=", "1", SOURCE)
    result.check("energy drift of the simulator's forecasts", max(d for _, d in rows[OURS]), 0.02, "<=", "1", SOURCE)
    for title in ("graph network", "plain network"):
        result.check(f"energy drift of the {title}'s forecasts", min(d for _, d in rows[title]), 0.02, ">", "1", SOURCE)
    result.detail("lengths [m]", [one.lengths[-1] for one in fits])
    result.detail("errors of lengths", off_lengths)
    result.detail("error of state [std], energy drift (median of forecasts)", rows)
    if run_directory is not None:
        report(result, fits[0], swing, first, truth).write(Path(run_directory) / "report.html")
    return result


def report(result: Result, fit: Fitted, swing: Swing, forecasts: dict[str, np.ndarray], truth: np.ndarray) -> Report:
    """Lengths and losses over iterations, what the decoder draws, and forecasts beside the truth."""
    page = Report("Lengths of a pendulum from pictures of it", f"{result.size}, {SEEDS[result.size]} seeds")
    page.checks(result)
    page.section("Joint fit", "First seed: lengths and losses over iterations, as in the source.")
    fig, axes = figure(1, 2)
    for k in range(3):
        axes[0].plot(fit.lengths[:, k], color=PALETTE[k], label=f"length {k + 1}")
    axes[0].axhline(3.0, color=TRUTH, linewidth=0.8, linestyle="--")
    axes[0].set(xlabel="iteration", ylabel="length [m]")
    axes[0].legend()
    for k, name in enumerate(("encoder", "simulator", "decoder")):
        axes[1].semilogy(fit.losses[:, k], color=PALETTE[k], label=name)
    axes[1].set(xlabel="iteration", ylabel="loss [1]")
    axes[1].legend()
    page.figure(fig, "Mean squares: of states in standard deviations, of pixels in the images' contrast.")
    page.section("Images", "Frames after training, and what the decoder makes of the encoder's states.")
    fig, axes = figure(2, 5, size=(8.4, 3.6))
    frames = [FRAMES + 5 * k for k in range(5)]
    for k, frame in enumerate(frames):
        drawn = (
            fit.model.image(fit.model.state(swing.pairs(frame, frame + 1)))
            .detach()
            .numpy()
            .reshape(swing.images[0].shape)
        )
        for axis, picture in ((axes[0, k], swing.images[frame]), (axes[1, k], drawn)):
            axis.imshow(picture, cmap="gray", vmin=0.0, vmax=0.6)
            axis.set_axis_off()
        axes[0, k].set_title(f"frame {frame}")
    page.figure(fig, "Above: MuJoCo's; below: decoded.")
    page.section("Forecasts", "From frame 800 on: the joints' angles over 20 steps.")
    fig, axes = figure(1, 3, sharex=True)
    for n, axis in enumerate(axes):
        axis.plot(truth[0, :, n], color=TRUTH, linestyle="--", label="MuJoCo")
        for k, (title, X) in enumerate(forecasts.items()):
            axis.plot(X[0, :, n], color=PALETTE[k], label=title)
        axis.set(title=f"joint {n + 1} [rad]", xlabel="step")
    axes[0].legend()
    page.figure(fig)
    return page
