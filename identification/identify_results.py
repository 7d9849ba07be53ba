"""What an identification leaves behind: a folder with report, checks, posterior and parameter file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from identification.identify_bag import BagIdentification, parameter_file
from identification.laplace import GAUSS_NEWTON, laplace_posterior, networks_meta
from reporting import RunDirectory, write_run
from sim_core.augmentation import attached, save_parameters

__all__ = ["write_identification"]

# Draws from the optimum's Gaussian that are saved beside it.
DRAWS = 100


def write_identification(
    outcome: BagIdentification,
    source: str,
    out: Path | None = None,
    truth: Mapping[str, float] | None = None,
    anyway: bool = False,
) -> Path:
    """report.html, result.json, posterior.npz and, if every check passed, parameters.yaml in a new folder, all or nothing.

    Args:
        source: what was read, for the report. out: the folder, which must not exist; None: below runs/.
        truth: {name of a quantity: true value}, where it is known (simulated runs). anyway: parameters.yaml in any case.

    Returns:
        The folder.
    """
    from identification.identify_report import identification_report  # matplotlib only when there is something to draw

    def fill(run: RunDirectory) -> None:
        notes = [*([outcome.truncated] if outcome.truncated else []), *outcome.data.notes]
        report = identification_report(outcome.history, outcome.model, outcome.result, source, notes, truth)
        report.write(run / "report.html")
        outcome.result.to_json(run / "result.json")
        meta = {
            "method": GAUSS_NEWTON,
            "robot": outcome.model.name,
            "model_hash": outcome.model_hash,
            **networks_meta(outcome.blueprint, outcome.model),
        }
        spec, seed = outcome.found.problem.spec, outcome.result.seed or 0
        laplace_posterior(outcome.found, spec, DRAWS, seed, meta).save(run / "posterior.npz")
        if outcome.result.passed or anyway:
            save_parameters(run / "parameters.yaml", parameter_file(outcome), attached(outcome.model))

    return write_run("identify", fill, out, bag=source)
