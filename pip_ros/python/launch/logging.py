"""Where the launch and its processes write: the screen and files.

Screen lines read `[INFO] [sim_plant-1]: process started with pid [42]` for the
launch itself and `[sim_plant-1] text` for a process's own output. Files lie in
one directory per launch: $ROS_LOG_DIR, else $ROS_HOME/log, else ~/.ros/log.
"""

import datetime
import logging
import os
import socket
import sys
from pathlib import Path

CRITICAL, ERROR, WARNING, INFO, DEBUG = (logging.CRITICAL, logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG)

_MESSAGE_FORMAT = "[%(levelname)s] [%(name)s]: %(message)s"
_FILE_FORMAT = "%(created)f [%(levelname)s] [%(name)s]: %(message)s"
_OUTPUT_FORMAT = "%(message)s"


class _ScreenHandler(logging.StreamHandler):
    """Writes to whatever sys.stdout is now, so that test runners can capture it."""

    def __init__(self):
        super().__init__(sys.stdout)

    @property
    def stream(self):
        return sys.stdout

    @stream.setter
    def stream(self, _):
        pass

    def handleError(self, record):
        # A reader that left (`| head`) must not turn every line into a traceback.
        if not isinstance(sys.exc_info()[1], (BrokenPipeError, ValueError)):
            super().handleError(record)


class _ByOrigin(logging.Formatter):
    """Formats messages of the launch with level and name, process output as it came."""

    def __init__(self, message_format):
        super().__init__(message_format)
        self._output = logging.Formatter(_OUTPUT_FORMAT)

    def format(self, record):
        if getattr(record, "is_process_output", False):
            return self._output.format(record)
        return super().format(record)


class LaunchConfig:
    """The settings all loggers of this process share."""

    def __init__(self):
        self.reset()

    def reset(self):
        self._log_dir = None
        self._file_handlers = {}
        self.level = INFO

    @property
    def level(self):
        return self._level

    @level.setter
    def level(self, level):
        if isinstance(level, str):
            level = logging.getLevelName(level.upper())
        self._level = level

    @property
    def log_dir(self):
        """The directory of this launch, made on first use."""
        if self._log_dir is None:
            self.log_dir = _default_log_dir()
        return self._log_dir

    @log_dir.setter
    def log_dir(self, path):
        os.makedirs(path, exist_ok=True)
        self._log_dir = str(path)

    def get_screen_handler(self):
        return _screen_handler

    def get_log_file_path(self, file_name="launch.log"):
        return os.path.join(self.log_dir, file_name)

    def get_log_file_handler(self, file_name="launch.log"):
        if file_name not in self._file_handlers:
            try:
                handler = logging.FileHandler(self.get_log_file_path(file_name))
            except OSError as error:
                print(
                    f"[WARNING] [launch]: no log files: {error}. Set ROS_LOG_DIR to a directory that can be written.",
                    file=sys.stderr,
                )
                handler = logging.NullHandler()
            handler.setFormatter(_ByOrigin(_FILE_FORMAT))
            self._file_handlers[file_name] = handler
        return self._file_handlers[file_name]


def _default_log_dir():
    home = os.environ.get("ROS_HOME") or os.path.join("~", ".ros")
    base = Path(os.environ.get("ROS_LOG_DIR") or os.path.join(home, "log")).expanduser()
    stamp = datetime.datetime.now().strftime("%Y-%m-%d-%H-%M-%S-%f")
    return base / f"{stamp}-{socket.gethostname()}-{os.getpid()}"


class _LazyFileHandler(logging.Handler):
    """Passes records to launch.log, which is created by the first record."""

    def emit(self, record):
        launch_config.get_log_file_handler().handle(record)


launch_config = LaunchConfig()
_screen_handler = _ScreenHandler()
_screen_handler.setFormatter(_ByOrigin(_MESSAGE_FORMAT))
_lazy_file_handler = _LazyFileHandler()
for _handler in (_screen_handler, _lazy_file_handler):
    _handler.addFilter(
        lambda record: record.levelno >= launch_config.level or getattr(record, "is_process_output", False)
    )


def get_logger(name=None):
    """Return the logger of the launch, or of one of its processes or modules."""
    full_name = "launch" if name is None else name
    logger = logging.getLogger(full_name)
    if not getattr(logger, "_launch_configured", False):
        logger._launch_configured = True
        logger.propagate = False
        logger.setLevel(DEBUG)  # the handlers apply the level, which may change later
        logger.addHandler(_screen_handler)
        logger.addHandler(_lazy_file_handler)
    return logger


def log_launch_config(*, logger=None):
    logger = logger or get_logger("launch")
    logger.info(f"All log files can be found below {launch_config.log_dir}")
    logger.info(f"Default logging verbosity is set to {logging.getLevelName(launch_config.level)}")


# Which of the two streams goes where, per name accepted by `output=`.
_OUTPUT_ALIASES = {
    "screen": {"both": {"screen"}},
    "log": {"both": {"log"}, "stderr": {"screen"}},
    "both": {"both": {"log", "screen"}},
    "own_log": {"both": {"own_log"}, "stdout": {"own_log"}, "stderr": {"own_log"}},
    "full": {"both": {"screen", "log", "own_log"}},
}


class _OutputLogger:
    """Writes lines of one stream of one process to its destinations."""

    def __init__(self, process_name, stream, sinks):
        self._name = process_name
        self._handlers = []
        if "screen" in sinks:
            self._handlers.append(_screen_handler)
        if "log" in sinks:
            self._handlers.append(_lazy_file_handler)
        if "own_log" in sinks:
            self._handlers.append(launch_config.get_log_file_handler(f"{process_name}-{stream}.log"))

    def info(self, line):
        record = logging.LogRecord(self._name, INFO, "", 0, line, None, None)
        record.is_process_output = True
        for handler in self._handlers:
            handler.handle(record)


def get_output_loggers(process_name, output_config):
    """Return the loggers for stdout and stderr of a process.

    Args:
        output_config: 'screen', 'log', 'both', 'own_log', 'full', or a dict with keys
            'stdout', 'stderr', 'both' whose values are one such sink or a set of sinks.

    Raises:
        ValueError: unknown name.
    """
    config = output_config
    if isinstance(config, str):
        if config not in _OUTPUT_ALIASES:
            raise ValueError(
                f"output='{config}' of process {process_name}: expected one of {', '.join(_OUTPUT_ALIASES)}"
            )
        config = _OUTPUT_ALIASES[config]
    sinks = {}
    for stream in ("stdout", "stderr"):
        sinks[stream] = set()
        for key in (stream, "both"):
            value = config.get(key, set())
            sinks[stream] |= {value} if isinstance(value, str) else set(value)
        unknown = sinks[stream] - {"screen", "log", "own_log"}
        if unknown:
            raise ValueError(
                f"output of process {process_name}: expected 'screen', 'log' or 'own_log', "
                f"found {', '.join(sorted(unknown))}"
            )
    return tuple(_OutputLogger(process_name, s, sinks[s]) for s in ("stdout", "stderr"))


def reset():
    """Forget all settings; for tests."""
    launch_config.reset()
