"""One BLAS thread for many small products.

OpenBLAS splits even a 700 x 32 product over all cores and spins while it waits for them. On a
machine with other work (a controller, a recorder) that made an identification of 6 s of Panda
data take 23 s in place of 5 s; alone on the machine it gains nothing at these sizes.
"""

import functools

from threadpoolctl import ThreadpoolController

__all__ = ["single_threaded"]

_controller = functools.cache(ThreadpoolController)


def single_threaded(function):
    """Run `function` with one BLAS thread; the caller's setting is restored."""

    @functools.wraps(function)
    def limited(*args, **kwargs):
        with _controller().limit(limits=1, user_api="blas"):
            return function(*args, **kwargs)

    return limited
