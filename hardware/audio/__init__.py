"""Microphones and electronic stethoscopes.

pcm.py           sample formats, gain, clipping, level
sample_clock.py  when a sample was measured, and which are missing
ring.py          from PortAudio's thread to ours without a copy too many
jitter_buffer.py  between two clocks
sources.py       where sound comes from: a sound card, a WAV file, the synthesiser
portaudio.py     the library of sound cards, which all streams of a process share
speaker.py       a loudspeaker
device.py        one of them behind the link every device has
wav.py           a recording
synthesiser.py   heart, breath, motor hum, friction
pulse.py, emulator.py   a sound card that is not there
"""
