"""One BLAS thread for many small products.

OpenBLAS splits even a 700 x 32 product over all cores and spins while it waits for them. On a
machine with other work (a controller, a recorder) that made an identification of 6 s of Panda
data take 23 s in place of 5 s; alone on the machine it gains nothing at these sizes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from threadpoolctl import ThreadpoolController

__all__ = ["single_threaded"]

_controller = functools.cache(ThreadpoolController)
P = ParamSpec("P")
R = TypeVar("R")


def single_threaded(function: Callable[P, R]) -> Callable[P, R]:
    """A decorator: the function runs with one BLAS thread, and the caller's setting is restored afterwards."""

    @functools.wraps(function)
    def limited(*args: P.args, **kwargs: P.kwargs) -> R:
        with _controller().limit(limits=1, user_api="blas"):
            return function(*args, **kwargs)

    return limited
