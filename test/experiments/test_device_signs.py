"""What counts as a driver's report of a fault: its own level, its own counters, its own words, nothing left over."""

import importlib
import inspect
import math
import random

import pytest

from experiments.devices.device_faults import Deck, Fault, note
from experiments.problems.device_bench import KILLED, Injection
from experiments.problems.device_signs import ERROR, OK, WARN, Health, Sign
from experiments.problems.devices import DEVICES
from hardware.emulate import DEVICES as EMULATORS
from hardware.emulation.emulator import Emulator
from hardware.emulation.faults import COMMON

DAMAGED = Sign(WARN, ("crc_errors", "resyncs"))
LOST = Sign(ERROR, ("reconnects",), "is gone")


def heard(t, level, sentence="", state="streaming", **counters):
    return Health(t, level, sentence, {"state": state, **{name: str(n) for name, n in counters.items()}})


BEFORE = heard(0.0, OK, "streaming", crc_errors=3, reconnects=1)


def test_a_warning_left_over_from_the_fault_before_does_not_count():
    before = heard(0.0, WARN, "3 errors within 5 s: 3 crc_errors", crc_errors=3)
    said = [heard(t, WARN, "3 errors within 5 s: 3 crc_errors", crc_errors=3) for t in (1.0, 2.0)]
    assert not DAMAGED.told(before, said).complete and math.isnan(DAMAGED.told(before, said).level)
    # With a count of its own kind the same level counts, from that message on.
    told = DAMAGED.told(before, [*said, heard(3.0, WARN, "4 errors within 5 s: 4 crc_errors", crc_errors=4)])
    assert told.complete and told.level == told.counter == 3.0 and told.grown == "crc_errors"


def test_the_counter_of_another_fault_does_not_count():
    told = DAMAGED.told(BEFORE, [heard(1.0, WARN, "1 errors within 5 s: 1 dropped", crc_errors=3, dropped=1)])
    assert not told.complete and told.grown == ""


def test_a_counter_without_the_level_does_not_count():
    told = DAMAGED.told(BEFORE, [heard(1.0, OK, "streaming", crc_errors=9)])
    assert not told.complete and told.counter == 1.0 and math.isnan(told.level)


def test_level_words_and_counter_may_come_in_different_messages():
    told = LOST.told(
        BEFORE,
        [
            heard(0.2, ERROR, "rate 3 Hz, expected 10 Hz", reconnects=1),
            heard(0.5, ERROR, "reconnecting: /dev/x is gone: unplugged?", "reconnecting", reconnects=1),
            heard(2.0, OK, "streaming", reconnects=2),
        ],
    )
    assert told.complete and (told.level, told.counter, told.grown) == (0.5, 2.0, "reconnects")


def test_words_that_stood_before_have_to_end_first_or_to_be_counted_again():
    sign = Sign(WARN, ("repeated_requests",), "asked for again")
    standing = heard(0.0, WARN, "the stream was asked for again", repeated_requests=1)
    again = [heard(1.0, WARN, "the stream was asked for again", repeated_requests=1)]
    assert not sign.told(standing, again).complete
    counted = [*again, heard(2.0, WARN, "the stream was asked for again", repeated_requests=2)]
    assert sign.told(standing, counted).level == 2.0
    says = Sign(ERROR, says="the sensor reports")
    stood = heard(0.0, ERROR, "the sensor reports: hot")
    assert math.isnan(says.told(stood, [heard(1.0, ERROR, "the sensor reports: hot")]).level)
    ended = [heard(1.0, OK, "streaming"), heard(2.0, ERROR, "the sensor reports: hot")]
    assert says.told(stood, ended).level == 2.0 and says.told(stood, ended).complete


def test_a_higher_level_tells_as_well_and_an_inactive_node_nothing():
    assert DAMAGED.told(BEFORE, [heard(1.0, ERROR, "no data for 1 s", crc_errors=4)]).complete
    assert not DAMAGED.told(BEFORE, [heard(1.0, 3, "inactive", crc_errors=4)]).complete


@pytest.mark.parametrize("parts", [(WARN,), (OK, ("resyncs",)), (3, (), "words")])
def test_a_sign_that_any_fault_could_leave_is_refused(parts):
    with pytest.raises(ValueError, match="WARN or ERROR"):
        Sign(*parts)


def test_a_fault_is_noted_with_what_was_withheld_taken_off():
    fault = Fault("a", "corrupt", "one by one", 10.0, 1.0, Injection(DAMAGED), BEFORE, withheld=0.0, late=0.25)
    begin = 100.0
    note(fault, [heard(111.0, WARN, "", crc_errors=4)], begin)
    assert fault.reported == pytest.approx(0.75) and math.isnan(fault.back) and fault.worst == WARN
    fault.end, fault.mended, fault.late = 12.0, True, 0.5
    note(fault, [heard(111.0, WARN, "", crc_errors=4), heard(114.0, WARN, "", crc_errors=4)], begin)
    assert fault.reported == pytest.approx(0.75) and fault.back == pytest.approx(1.5) and fault.telling.complete


def test_every_fault_of_a_deck_comes_once_before_any_comes_again():
    for device in DEVICES:
        deck, n = Deck(device, random.Random(1)), len(device.faults)
        drawn = [deck.draw() for _ in range(2 * n)]
        assert set(drawn[:n]) == set(drawn[n:]) == set(device.faults)


def emulator_faults(device):
    """What an emulator knows, from its class."""
    module = importlib.import_module(EMULATORS[device][0])
    classes = [c for _, c in inspect.getmembers(module, inspect.isclass) if issubclass(c, Emulator)]
    return set(COMMON).union(*(c.own_faults for c in classes))


@pytest.mark.parametrize("device", DEVICES, ids=lambda device: device.node)
def test_the_matrix_names_faults_that_its_emulator_plays(device):
    assert KILLED in device.faults
    assert set(device.faults) - {KILLED} <= emulator_faults(device.emulator[0])
    for injection in device.faults.values():
        assert 0.0 < injection.seconds[0] <= injection.seconds[1] and isinstance(injection.sign, Sign)
