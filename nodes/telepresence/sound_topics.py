"""The robot's microphone and the operator's voice, as topics of the bridge."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from audio_common_msgs.msg import AudioDataStamped, AudioInfo

from hardware.audio.sources import StreamFormat
from nodes.framework.lifecycle import RefitNode
from nodes.framework.messages import seconds, to_stamp
from nodes.framework.qos import LATCHED, SENSOR
from nodes.framework.sound_messages import SOUND, audio_info, samples_of, stamped_audio, stream_format

__all__ = ["SoundTopics"]

#: what a voice consists of; a packet holds 10 to 120 ms
VOICE_FORMAT = StreamFormat(48000, 1, "S16LE", 20)


class SoundTopics:
    """Listens to a microphone while somebody wants it, and says the voice.

    Args:
        node: whose topics they are. microphone: name of the node whose sound it is; "": none.
        hand_on: told, on the executor's thread, of samples (frames, channels) of 16 bits, their rate, and how old the first is [s].
    """

    def __init__(self, node: RefitNode, microphone: str, hand_on: Callable[[np.ndarray, int, float], None]) -> None:
        self._node, self._microphone, self._hand_on = node, microphone, hand_on
        self._listening: list[Any] = []
        self._format: StreamFormat | None = None
        self._refusal = ""
        self._voice = node.create_publisher(AudioDataStamped, "operator/voice/audio_stamped", SOUND)
        self._voice_info = node.create_publisher(AudioInfo, "operator/voice/audio_info", LATCHED)
        self._voice_info.publish(audio_info(VOICE_FORMAT))

    def attend(self, wanted: bool) -> None:
        """Listen to the microphone, or no more."""
        if not wanted or not self._microphone:
            self._node.discard(*self._listening)
            self._listening, self._format = [], None
        elif not self._listening:
            node, name = self._node, self._microphone
            self._listening = [
                node.create_subscription(AudioInfo, f"{name}/audio_info", self._on_info, LATCHED),
                node.create_subscription(AudioDataStamped, f"{name}/audio_stamped", self._on_sound, SENSOR),
            ]

    def destroy(self) -> None:
        """End all of it."""
        self._node.discard(*self._listening, self._voice, self._voice_info)
        self._listening = []

    # -- the robot's sound ---------------------------------------------------------------------------

    def _on_info(self, info: AudioInfo) -> None:
        try:
            self._format = stream_format(info)
        except ValueError as error:
            self._format = None
            self._refuse(str(error))

    def _on_sound(self, message: AudioDataStamped) -> None:
        form, topic = self._format, f"{self._microphone}/audio_stamped"
        if form is None:
            self._refuse(self._refusal or f"nothing usable on '{self._microphone}/audio_info' says what it consists of")
            return
        try:
            samples = samples_of(message.audio.data, form)
        except ValueError as error:
            self._refuse(str(error))
            return
        if self._refusal:
            self._node.get_logger().info(f"The sound of '{topic}' is taken again.")
            self._refusal = ""
        self._node.diagnostics.tick("sounds")
        now = 1e-9 * self._node.get_clock().now().nanoseconds
        self._hand_on(samples, form.rate, now - seconds(message.header.stamp))

    def _refuse(self, why: str) -> None:
        self._node.diagnostics.tick("sounds_refused")
        if why != self._refusal:
            self._node.get_logger().warning(f"The sound of '{self._microphone}/audio_stamped' is not taken: {why}.")
        self._refusal = why

    # -- the operator's voice ------------------------------------------------------------------------

    @property
    def hears_voice(self) -> bool:
        """Whether anybody listens to the voice."""
        return self._voice.get_subscription_count() > 0

    def say(self, samples: np.ndarray, age: float) -> None:
        """The voice's next samples (frames, 1) of 16 bits at 48 kHz, the first `age` [s] old; on the link's thread."""
        stamp = to_stamp(1e-9 * self._node.get_clock().now().nanoseconds - age)
        self._voice.publish(stamped_audio(samples.astype("<i2").tobytes(), stamp, "operator"))
        self._node.diagnostics.tick("voices")
