"""Prints what docs/meta.md says: `python test/sim_core/meta/tables.py calibration`, or `... training 32`.

calibration: models of the family of lines, of 3 seeds, on groups that no training saw. training: seconds of one core for 5,100
crops of random content, of which nothing can be learnt, so that the epochs of a training are no measure: the times are of one epoch.
"""

import sys
import time
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[3]), str(Path(__file__).resolve().parent)]

import numpy as np
import torch
from lines import LineExtractor, lines

from sim_core.meta.codega import train_codega
from sim_core.meta.joint import train_joint
from sim_core.meta.neural_process import train_neural_process
from sim_core.meta.settings import Augmentation, FoldSettings, MeanFit, MetaSettings, ProcessFit, TaskFit
from sim_core.meta.supervised import train_mean
from sim_core.meta.tasks import Task
from sim_core.scooping.learning.network import ScoopExtractor, flipped

VARIANTS = {
    "CoDeGa, as published": (train_codega, MetaSettings()),
    "K = 2": (train_codega, MetaSettings(folds=FoldSettings(2))),
    "K = 8": (train_codega, MetaSettings(folds=FoldSettings(8))),
    "folds of tasks at random": (train_codega, MetaSettings(folds=FoldSettings(by="tasks"))),
    "start from several seeds": (train_codega, MetaSettings(folds=FoldSettings(start="seeds"))),
    "start from a shared extractor": (train_codega, MetaSettings(folds=FoldSettings(start="shared"))),
    "kernel on the folds' extractors": (train_codega, MetaSettings(kernel_input="folds")),
    "kernel on a branch": (train_codega, MetaSettings(kernel_input="branch")),
    "jointly": (train_joint, MetaSettings()),
    "neural process": (train_neural_process, MetaSettings()),
}
SHOTS = (0, 5, 10)
#: not repeated with little noise
FAIRLY_NOISY = ("K = 2", "K = 8", "folds of tasks at random", "start from several seeds", "neural process")


def calibration():
    """Share of readings inside their 95 % interval and root mean square error, by shots; likelihood by folds and deployed."""
    for noise, names in ((1.0, VARIANTS), (0.1, [name for name in VARIANTS if name not in FAIRLY_NOISY])):
        tasks = lines(range(8), 2, 40, seed=1, noise=noise)
        unseen = lines(range(100, 120), 1, 60, seed=2, noise=noise)
        print(
            f"| noise {noise} | "
            + " | ".join(f"{n} shots: inside, error" for n in SHOTS)
            + " | unseen: fold, deployed |"
        )
        for name in names:
            train, settings = VARIANTS[name]
            rows, told = [], []
            for seed in range(3):
                held_out = {"held_out": unseen} if train is train_codega else {}
                model = train(tasks, LineExtractor, settings, seed, **held_out)
                told.append([model.meta.get("unseen_fold", np.nan), model.meta.get("unseen_final", np.nan)])
                rows.append([scores(model, unseen, shots) for shots in SHOTS])
            cells = [f"{inside:.2f}, {error:.2f}" for inside, error in np.mean(rows, axis=0)]
            likelihoods = ", ".join(f"{each:.2f}" for each in np.mean(told, axis=0))
            print(f"| {name} | {' | '.join(cells)} | {likelihoods} |", flush=True)


def scores(model, tasks, shots):
    z, errors = [], []
    for task in tasks:
        belief = model.condition(*task.take(range(shots)))
        queries, values = task.take(range(20, len(task)))
        mean, std = belief.predict(queries)
        if hasattr(belief, "noise"):
            std = np.hypot(std, belief.noise())
        errors.append(values.numpy() - mean)
        z.append(errors[-1] / std)
    return np.mean(np.abs(np.concatenate(z)) < 1.96), np.sqrt(np.mean(np.concatenate(errors) ** 2))


def training(crop):
    """Seconds of one epoch of each training, and of scoring 11,520 actions with a support of 20."""
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    names = [(a, b) for a in "abcdefgh" for b in "abcdefgh" if a <= b]
    tasks = [
        Task(
            f"{k}",
            names[k % len(names)],
            (rng.random((100, 4, crop, crop), dtype=np.float32), rng.random((100, 2))),
            rng.random(100),
        )
        for k in range(51)
    ]
    settings = MetaSettings(
        augmentation=Augmentation((flipped,)),
        mean=MeanFit(batch=128, epochs=1),
        kernel=TaskFit(epochs=1),
        joint=TaskFit(epochs=1),
        process=ProcessFit(epochs=1),
    )
    factory = lambda: ScoopExtractor(crop=crop)
    train_mean(tasks[:2], factory, settings)  # whatever is prepared once
    for name, train in {"mean": train_mean, "jointly": train_joint, "neural process": train_neural_process}.items():
        start = time.process_time()
        train(tasks, factory, settings)
        print(f"{name}: {time.process_time() - start:.2f} s")
    told = []
    train_codega(tasks, factory, settings, progress=lambda text: told.append((text, time.process_time())))
    kernel = next(k for k, (text, _) in enumerate(told) if text.startswith("kernel"))
    print(f"kernel, with the features of all entries before it: {told[kernel][1] - told[kernel - 1][1]:.2f} s")
    for way in ("extractor", "folds"):
        model = train_codega(tasks, factory, MetaSettings(**{**vars(settings), "kernel_input": way}))
        crops, numbers = rng.random((1440, 4, crop, crop), dtype=np.float32), rng.random((11520, 2))
        start = time.process_time()
        model.condition(*tasks[0].take(range(20))).predict((crops, numbers))
        print(f"11,520 actions, kernel on {way}: {time.process_time() - start:.2f} s")


if __name__ == "__main__":
    calibration() if sys.argv[1] == "calibration" else training(int(sys.argv[2]))
