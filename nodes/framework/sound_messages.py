"""Sound as messages of audio_common, the same from every node that has any."""

from __future__ import annotations

from array import array

from audio_common_msgs.msg import AudioData, AudioDataStamped, AudioInfo
from builtin_interfaces.msg import Time
from rclpy.qos import QoSProfile

from hardware.audio.sources import StreamFormat

__all__ = ["SOUND", "audio_info", "stamped_audio"]

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
