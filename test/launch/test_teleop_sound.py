"""The launch file of telepresence: a microphone without hardware says its sound where the bridge looks for it, and a loudspeaker that is
not there is waited for.
"""

import launch_pytest
import pytest
from audio_common_msgs.msg import AudioDataStamped, AudioInfo
from launch import LaunchDescription
from launched import Processes, include, until

from nodes.framework.qos import LATCHED
from nodes.framework.sound_messages import SOUND, samples_of, stream_format


@launch_pytest.fixture(scope="module")
def graph(domain):
    processes = Processes()
    avatar = include(
        "teleop.launch.py",
        port=0,
        cameras="none",
        texture="none",
        microphone="synth",
        voice="no such loudspeaker",
        real_time_factor=0.25,
    )
    return LaunchDescription([*processes.handlers(), avatar]), processes


@pytest.mark.launch(fixture=graph)
def test_the_microphone_sounds(graph, probe):
    probe.wait_active("sim_plant", "teleop", "telepresence_bridge", "microphone")
    info = probe.watch(AudioInfo, "microphone/audio_info", LATCHED).wait(what="the format")
    form = stream_format(info)
    assert (form.rate, form.channels) == (48000, 1)
    sound = probe.watch(AudioDataStamped, "microphone/audio_stamped", SOUND)
    sound.wait_next(lambda message: samples_of(message.audio.data, form).std() > 10.0, what="sound")


@pytest.mark.launch(fixture=graph)
def test_a_loudspeaker_that_is_missing_is_told_and_waited_for(graph, probe):
    probe.wait_active("speaker")
    until(lambda: "no audio output 'no such loudspeaker'" in graph[1].output("/speaker"), "it says so")
    assert probe.node.count_subscribers("operator/voice/audio_stamped") == 0, "who speaks is told that nobody hears"
    graph[1].assert_running()


@pytest.mark.launch(fixture=graph, shutdown=True)
def test_it_ends_well(graph):
    graph[1].assert_ended_well()
