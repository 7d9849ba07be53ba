"""An emulated microphone, where there are PortAudio and PulseAudio."""

import shutil

import pytest


def missing() -> str:
    """Why sound cannot be emulated here; "" if it can."""
    absent = [name for name in ("pulseaudio", "pactl") if shutil.which(name) is None]
    if absent:
        return f"{', '.join(absent)} not installed (apt-get install pulseaudio pulseaudio-utils)"
    try:
        import sounddevice  # noqa: F401  It loads PortAudio
    except OSError:
        return "PortAudio not installed (apt-get install libportaudio2)"
    return ""


@pytest.fixture(scope="module")
def sound_server():
    """Skips where no sound server can be started."""
    if why := missing():
        pytest.skip(why)


@pytest.fixture(scope="module")
def microphone():
    """An EmulatorProcess; tests choose the sound with `set`."""
    if why := missing():
        pytest.skip(why)
    from hardware.emulation.process import EmulatorProcess

    with EmulatorProcess("audio", "--sound", "silence", seed=1) as emulator:
        yield emulator
