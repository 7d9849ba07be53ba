"""Sound as messages of audio_common, the same from every node that has any."""

from __future__ import annotations

from array import array

import numpy as np
from audio_common_msgs.msg import AudioData, AudioDataStamped, AudioInfo
from builtin_interfaces.msg import Time
from rclpy.qos import QoSProfile

from hardware.audio.pcm import FORMATS, from_float, to_float
from hardware.audio.sources import StreamFormat

__all__ = ["LONGEST", "SOUND", "audio_info", "samples_of", "stamped_audio", "stream_format"]

#: samples of each channel per second that a stream may have
RATES = (8000, 96000)
#: channels that a listener has ears for
MOST_CHANNELS = 2
#: [s] of sound that one message may hold
LONGEST = 0.25

# 0.4 s of chunks of 20 ms for a reader that is held up; reliable, since a lost chunk is a click.
SOUND = QoSProfile(depth=20)


def audio_info(form: StreamFormat) -> AudioInfo:
    """What a stream consists of."""
    return AudioInfo(
        channels=form.channels,
        sample_rate=form.rate,
        sample_format=form.name,
        bitrate=round(8 * form.frame_bytes * form.rate / 1000),
        coding_format="wave",
    )


def stamped_audio(data: bytes, stamp: Time, frame_id: str) -> AudioDataStamped:
    """A chunk of interleaved samples and the time of its first one; its field `audio` is the message without a header."""
    audio = AudioData()
    audio.data = array("B", data)
    message = AudioDataStamped(audio=audio)
    message.header.stamp, message.header.frame_id = stamp, frame_id
    return message


def stream_format(info: AudioInfo) -> StreamFormat:
    """What somebody's stream consists of, where it can be played: one or two channels of plain PCM.

    Raises:
        ValueError: it cannot be.
    """
    low, high = RATES
    if not 1 <= info.channels <= MOST_CHANNELS:
        raise ValueError(f"expected sound of one or two channels, found {info.channels}")
    if not low <= info.sample_rate <= high:
        raise ValueError(f"expected {low} to {high} samples a second, found {info.sample_rate}")
    if info.coding_format not in ("", "wave", "raw"):
        raise ValueError(f"expected plain PCM (coding format 'wave'), found '{info.coding_format}'")
    return StreamFormat(info.sample_rate, info.channels, info.sample_format)


def samples_of(data: bytes | array, form: StreamFormat) -> np.ndarray:
    """A message's samples as 16-bit integers, (frames, channels).

    Raises:
        ValueError: it holds no whole samples, none, more than `LONGEST`, or numbers that are none.
    """
    if not len(data) or len(data) % form.frame_bytes:
        raise ValueError(f"expected samples of {form.frame_bytes} bytes ({form.name}), found {len(data)} bytes")
    if len(data) > LONGEST * form.rate * form.frame_bytes:
        raise ValueError(f"expected at most {LONGEST:g} s of sound in a message, found {len(data)} bytes")
    samples = np.frombuffer(data, form.sample.dtype)
    if not form.sample.is_integer and not np.isfinite(samples).all():
        raise ValueError("expected finite samples, found some that are not")
    stored = FORMATS["S16LE"]
    if form.sample is not stored:
        samples = from_float(to_float(samples, form.sample), stored)
    return samples.reshape(-1, form.channels)
