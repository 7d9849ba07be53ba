"""PortAudio, as the inputs and outputs of one process share it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from typing import Any

from hardware.link import DeviceError, Disconnected

__all__ = ["PortAudio", "find_device", "reason"]


class PortAudio:
    """It lists devices when it starts, and never again.

    It is started anew only when something is not as listed (each start leaks 13 kB in ALSA), and only while none of its streams is open.
    Both are of this process, and so of the class.
    """

    open_streams = 0
    list_is_old = True

    @classmethod
    def load(cls, server: str) -> Any:
        """The library `sounddevice`.

        Args:
            server: PulseAudio server whose devices it is to see ("unix:/path"); "": the machine's own sound system.

        Raises:
            DeviceError: PortAudio is not installed.
        """
        if server:
            os.environ["PULSE_SERVER"] = server  # libpulse, behind PortAudio, looks nowhere else
        try:
            import sounddevice
        except OSError as error:
            raise DeviceError("PortAudio is not installed: sudo apt-get install libportaudio2") from error
        return sounddevice

    @classmethod
    def devices(cls, library: Any) -> Any:
        """What it lists now: a sequence of dicts."""
        renew, cls.list_is_old = cls.list_is_old and not cls.open_streams, True
        if renew:
            library._terminate()
            library._initialize()
        return library.query_devices()

    @classmethod
    def opened(cls) -> None:
        """A stream was opened: everything is as listed."""
        cls.open_streams += 1
        cls.list_is_old = False

    @classmethod
    def closed(cls, stream: Any) -> None:
        """A stream is closed, whatever it has to say to that."""
        with contextlib.suppress(Exception):
            stream.abort()  # stop() would wait for sound that may never come
        with contextlib.suppress(Exception):
            stream.close()
        cls.open_streams -= 1


def find_device(devices: Sequence[dict], default: int, wanted: str, kind: str = "input") -> int:
    """Index of the device that a person means.

    Args:
        devices: as PortAudio lists them: name, max_input_channels, max_output_channels.
        default: PortAudio's default device, -1 if it has none.
        wanted: "default", an index, or part of a name in any case. kind: "input" or "output".

    Raises:
        Disconnected: there is none; the text lists those there are.
    """
    found = {i: device["name"] for i, device in enumerate(devices) if device[f"max_{kind}_channels"] > 0}
    if wanted == "default" and default in found:
        return default
    if wanted.isdecimal() and int(wanted) in found:
        return int(wanted)
    exact = [i for i, name in found.items() if name.lower() == wanted.lower()]
    partly = [i for i, name in found.items() if wanted.lower() in name.lower()]
    if exact or partly:
        return (exact or partly)[0]
    present = ", ".join(f"{i} '{name}'" for i, name in found.items()) or "none"
    raise Disconnected(
        f"no audio {kind} '{wanted}'; present: {present}; plug it in, or set 'device' to a part of one of these names"
    )


def reason(error: Exception) -> str:
    """What PortAudio says, without its numbers."""
    return str(error.args[0] if error.args else error).partition(" [")[0]
