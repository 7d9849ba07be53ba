"""Particle sets as messages, and the roll-outs of their physical vectors."""

from __future__ import annotations

import numpy as np
from refit_interfaces.msg import Parameter, ParameterSet, ParticleSet

__all__ = ["matrix", "one_set", "particle_set", "state_names", "vectors_of"]


def particle_set(found: dict, revision: int, stamp) -> ParticleSet:
    """The result of `infer_job` as a message."""
    message = ParticleSet(
        robot=found["robot"],
        model_hash=found["model_hash"],
        blueprint=found["blueprint"],
        revision=revision,
        method=found["method"],
        file=found["file"],
        names=found["names"],
        units=found["units"],
        lower=found["lower"].tolist(),
        upper=found["upper"].tolist(),
        values=found["values"].ravel().tolist(),
        log_lik=found["log_lik"].tolist(),
        vectors=found["vectors"].ravel().tolist(),
    )
    message.header.stamp = stamp
    return message


def matrix(numbers, rows: int, columns: int, what: str) -> np.ndarray:
    """Row after row as (rows, columns).

    Raises:
        ValueError: another count of numbers.
    """
    numbers = np.asarray(numbers, dtype=float)
    if numbers.size != rows * columns:
        raise ValueError(f"{what}: expected {rows} x {columns} numbers, found {numbers.size}")
    return numbers.reshape(rows, columns)


def vectors_of(message: ParticleSet, size: int) -> np.ndarray:
    """Physical vectors (N, size) of a set, without weights; () of an empty one has N = 0.

    Raises:
        ValueError: it has none, or of another model.
    """
    if not len(message.vectors) or len(message.vectors) % size:
        raise ValueError(
            f"the particles have {len(message.vectors)} numbers of physical vectors, expected a multiple of {size}: "
            "infer them with the model that they are for"
        )
    return np.asarray(message.vectors, dtype=float).reshape(-1, size)


def one_set(posterior: ParticleSet, vector: np.ndarray, values, message: str) -> ParameterSet:
    """One physical vector as a parameter set, with the free quantities' values for people."""
    rows = [
        Parameter(
            name=name,
            unit=unit,
            value=float(value),
            std=np.nan,
            lower=float(low),
            upper=float(high),
            free=True,
            excited=True,
        )
        for name, unit, value, low, high in zip(
            posterior.names, posterior.units, values, posterior.lower, posterior.upper
        )
    ]
    return ParameterSet(
        robot=posterior.robot,
        model_hash=posterior.model_hash,
        revision=posterior.revision,
        source=ParameterSet.SOURCE_USER,
        accepted=True,
        vector=vector.tolist(),
        parameters=rows,
        loss_before=np.nan,
        loss_after=np.nan,
        message=message,
    )


def state_names(model) -> list[str]:
    """Names of the states [q, v], for joints of one degree of freedom; else by number."""
    if model.nq != model.nv or len(model.joint_names) != model.nv:
        return [f"q{i}" for i in range(model.nq)] + [f"v{i}" for i in range(model.nv)]
    return [f"{joint}.{what}" for what in ("position", "velocity") for joint in model.joint_names]
