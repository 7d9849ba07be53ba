"""Console scripts: the first lines that run, so that Ctrl-C during the slow imports is quiet too.

Every name of `nodes.table.NODES` is a function of this module.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import os
import signal
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import NoReturn

from config.network import enclose
from config.niceness import carry_over
from nodes.table import NODES, SENDS_IMAGES


def _main(module: str) -> NoReturn:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: os._exit(0))  # nothing has started: nothing to end
    # Blocked until here by the shield of nodes/framework/launching.py.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    carry_over()
    enclose(os.environ, images=module in SENDS_IMAGES)
    # What is imported stays. Looking through it for garbage over and over is a sixth of what a node's start takes.
    gc.disable()
    main = importlib.import_module(module).main
    gc.freeze()
    gc.enable()
    _leave(main())


def _leave(code: int) -> NoReturn:
    """End the process without the destructors of libraries, in which the middleware's threads may find each other gone."""
    # As the interpreter ends: threads first, among them those of pools, which are told and waited for; then exit functions.
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def __getattr__(name: str) -> Callable[[], NoReturn]:
    if name not in NODES:
        raise AttributeError(
            f"module {__name__} has no node '{name}'; nodes/table.py lists them: {', '.join(sorted(NODES))}"
        )
    return partial(_main, NODES[name])
