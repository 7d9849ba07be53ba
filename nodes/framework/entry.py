"""Console scripts: the first lines that run, so that Ctrl-C during the slow imports is quiet too.

Every name of `nodes.table.NODES` is a function of this module.
"""

from __future__ import annotations

import importlib
import os
import signal
from collections.abc import Callable
from functools import partial

from nodes.table import NODES


def _main(module: str) -> int:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: os._exit(0))  # nothing has started: nothing to end
    # Blocked until here by the shield of nodes/framework/launching.py.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    return importlib.import_module(module).main()


def __getattr__(name: str) -> Callable[[], int]:
    if name not in NODES:
        raise AttributeError(
            f"module {__name__} has no node '{name}'; nodes/table.py lists them: {', '.join(sorted(NODES))}"
        )
    return partial(_main, NODES[name])
