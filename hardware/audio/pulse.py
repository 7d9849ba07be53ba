"""A sound card that is not there: a PulseAudio server of our own, whose source is a FIFO and whose sink is listened to.

Without sound card and kernel modules this is what an unmodified PortAudio can be given: with PULSE_SERVER set it
lists the server's default source as the ALSA devices "pulse" and "default".
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from hardware.audio.pcm import SampleFormat

__all__ = ["NullSink", "PipeSource", "PulseServer"]

_LIBC = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1
#: our names of sample formats -> PulseAudio's
FORMATS = {"S16LE": "s16le", "S32LE": "s32le", "F32LE": "float32le"}


class PulseServer:
    """A private daemon, beside whatever sound system the machine has; runs as root too, and ends with this process.

    Args:
        socket: Unix socket that clients connect to: PULSE_SERVER=unix:<socket>.
        timeout: for the server to answer [s].

    Raises:
        OSError: PulseAudio is not installed, or does not start; the text says why.
    """

    def __init__(self, socket: str | os.PathLike, timeout: float = 20.0) -> None:
        for program in ("pulseaudio", "pactl"):
            if shutil.which(program) is None:
                raise OSError(f"{program} is not installed: sudo apt-get install pulseaudio pulseaudio-utils")
        self.socket = Path(socket)
        self.folder = Path(tempfile.mkdtemp(prefix="refit-pulse-"))
        # Of the person's sound system nothing is used: configuration, state, cookies and runtime files are in our folder.
        environment = {
            **os.environ,
            "HOME": str(self.folder),
            "PULSE_RUNTIME_PATH": str(self.folder),
            "PULSE_STATE_PATH": str(self.folder),
            "XDG_CONFIG_HOME": str(self.folder),
            "XDG_RUNTIME_DIR": str(self.folder),
        }
        environment.pop("PULSE_SERVER", None)
        self._log = (self.folder / "log").open("w")
        with contextlib.suppress(FileNotFoundError):
            self.socket.unlink()
        self._process = subprocess.Popen(
            [
                "pulseaudio",
                "-n",
                "--daemonize=no",
                "--system=false",
                "--exit-idle-time=-1",
                "--use-pid-file=no",
                "--disable-shm=yes",
                "--high-priority=no",
                "--realtime=no",
                "--log-target=stderr",
                "-L",
                f"module-native-protocol-unix socket={self.socket} auth-anonymous=1 auth-cookie-enabled=0",
            ],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
            preexec_fn=lambda: _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM),
        )
        end = time.monotonic() + timeout
        while self.control("info", check=False).returncode:
            if self._process.poll() is not None or time.monotonic() > end:
                said = (self.folder / "log").read_text()[-1000:]
                self.close()
                raise OSError(f"pulseaudio did not start: {said or 'it said nothing'}")
            time.sleep(0.05)

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def control(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """pactl.

        Raises:
            OSError: it failed.
        """
        done = subprocess.run(
            ["pactl", "--server", f"unix:{self.socket}", *words], capture_output=True, text=True, timeout=10.0
        )
        if check and done.returncode:
            raise OSError(f"pactl {' '.join(words)}: {done.stderr.strip()}")
        return done

    def close(self) -> None:
        """End the daemon, remove what it left."""
        self._process.terminate()
        try:
            self._process.wait(5.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(5.0)
        self._log.close()
        shutil.rmtree(self.folder, ignore_errors=True)
        with contextlib.suppress(FileNotFoundError):
            self.socket.unlink()


class PipeSource:
    """A source of a PulseServer; what is written sounds there. The `port` of the emulator.

    Attributes:
        stats: bytes sent, bytes lost because the pipe was full (nobody hears) or the source unplugged.
    """

    def __init__(self, server: PulseServer, rate: int, channels: int, form: SampleFormat) -> None:
        self.server, self.rate, self.channels, self.form = server, rate, channels, form
        self.stats = dict(sent=0, overflow=0, unplugged=0)
        self._path = server.folder / "source"
        self._pipe, self._module = -1, ""
        self.replug()

    @property
    def plugged(self) -> bool:
        return self._pipe >= 0

    def write(self, data: bytes) -> None:
        """Samples, interleaved. A converter cannot send half a sample: what is over is left out."""
        whole = len(data) - len(data) % (self.channels * self.form.width)
        if not self.plugged:
            self.stats["unplugged"] += whole
            return
        try:
            sent = os.write(self._pipe, data[:whole])
        except (BlockingIOError, BrokenPipeError):
            sent = 0
        self.stats["sent"] += sent
        self.stats["overflow"] += whole - sent

    def unplug(self) -> None:
        """The source vanishes from the server."""
        if self.plugged:
            os.close(self._pipe)
            self._pipe = -1
            self.server.control("unload-module", self._module, check=False)

    def replug(self) -> None:
        """It is there again."""
        if self.plugged:
            return
        self._module = self.server.control(
            "load-module",
            "module-pipe-source",
            f"file={self._path}",
            "source_name=microphone",
            f"format={FORMATS[self.form.name]}",
            f"rate={self.rate}",
            f"channels={self.channels}",
        ).stdout.strip()
        self.server.control("set-default-source", "microphone")
        self._pipe = os.open(self._path, os.O_WRONLY | os.O_NONBLOCK)

    def close(self) -> None:
        """Unplug, end the server."""
        self.unplug()
        self.server.close()


class NullSink:
    """A sink of a PulseServer that plays to nobody; what it plays can be recorded."""

    def __init__(self, server: PulseServer, rate: int = 48000, channels: int = 1) -> None:
        self.server, self.rate, self.channels = server, rate, channels
        self._module = ""
        self.replug()

    def record(self, seconds: float) -> bytes:
        """What it plays from now on for so long, S16LE, interleaved.

        Raises:
            OSError: it cannot be recorded.
        """
        size = round(seconds * self.rate) * self.channels * 2
        words = [
            "parec",
            "--server",
            f"unix:{self.server.socket}",
            "--device=loudspeaker.monitor",
            "--raw",
            "--latency-msec=20",
        ]
        words += ["--format=s16le", f"--rate={self.rate}", f"--channels={self.channels}"]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as recorder:
            assert recorder.stdout is not None and recorder.stderr is not None
            data = recorder.stdout.read(size)
            recorder.terminate()
            if len(data) < size:
                raise OSError(f"parec: {recorder.stderr.read().decode(errors='replace').strip() or 'it ended early'}")
        return data

    def unplug(self) -> None:
        """The sink vanishes from the server."""
        if self._module:
            self.server.control("unload-module", self._module, check=False)
            self._module = ""

    def replug(self) -> None:
        """It is there again."""
        if not self._module:
            words = ("sink_name=loudspeaker", "format=s16le", f"rate={self.rate}", f"channels={self.channels}")
            self._module = self.server.control("load-module", "module-null-sink", *words).stdout.strip()
            self.server.control("set-default-sink", "loudspeaker")

    def close(self) -> None:
        """Unplug, end the server."""
        self.unplug()
        self.server.close()
