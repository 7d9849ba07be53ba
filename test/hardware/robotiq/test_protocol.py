"""G1: the driver's registers are the manual's, and the two codecs, which share no code, mean the same by them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware.link.modbus_rtu import frame, read_write_registers, write_registers
from hardware.robotiq.fingers import OwnFingers
from hardware.robotiq.gripper import GRIPPERS, Gripper
from hardware.robotiq.protocol import (
    FAULTS,
    MODELS,
    OUTPUT,
    UNIT,
    Action,
    Contact,
    command_registers,
    decode_status,
    major,
)


@pytest.mark.parametrize(
    "registers, wire",
    [
        (command_registers(Action.ACTIVATE), "091003E800030601000000000072E1"),
        # Manual 4.7: close at full speed and force; open likewise.
        (command_registers(Action.ACTIVATE | Action.GO_TO, 255, 255, 255), "091003E80003060900 00FFFFFF4229"),
        (command_registers(Action.ACTIVATE | Action.GO_TO, 0, 255, 255), "091003E8000306090000 00FFFF7219"),
    ],
)
def test_commands_of_the_manual(registers, wire):
    assert frame(UNIT, write_registers(OUTPUT, registers)) == bytes.fromhex(wire)


def test_a_held_object():
    """Manual 4.7, answer to 0904 07D0 0003: the grasp is completed."""
    status = decode_status((0xB900, 0x00FF, 0xBD00))
    assert (status.activated, status.go_to, status.activation, status.contact) == (True, True, 3, Contact.CLOSING)
    assert (status.fault, status.requested, status.position, status.current) == (0, 255, 189, 0.0)
    assert status.ready


@given(st.lists(st.integers(0, 0xFFFF), min_size=3, max_size=3))
def test_no_registers_break_the_decoder(registers):
    status = decode_status(registers)
    assert 0 <= status.position <= 255 and 0 <= status.fault <= 15 and status.activation in range(4)
    assert 0.0 <= MODELS["2f_85"].width(status.position) <= 0.085


def test_counts_and_si_units():
    small, large = MODELS["2f_85"], MODELS["2f_140"]
    assert (small.width(3), small.width(230)) == (0.085, 0.0) and (large.width(3), large.width(230)) == (0.140, 0.0)
    assert small.width(255) == 0.0 and small.width(0) == 0.085  # counts beyond the stroke's ends: the ends
    assert (small.position_count(0.085), small.position_count(0.0)) == (0, 255)
    for width in (0.001, 0.02, 0.0425, 0.084):
        assert abs(small.width(small.position_count(width)) - width) <= 0.5 * 0.085 / 227 + 1e-12
    assert (small.speed_count(0.020), small.speed_count(0.150), small.speed_count(9.0), small.speed_count(0.0)) == (
        0,
        255,
        255,
        0,
    )
    assert (large.force_count(10.0), large.force_count(125.0), large.force_count(67.5)) == (0, 255, 128)
    assert small.force_of(255) == 235.0 and small.force_of(0) == 20.0


def test_every_fault_of_the_manual_has_its_sentence():
    assert sorted(FAULTS) == [5, *range(7, 16)]
    assert [code for code in FAULTS if major(code)] == list(range(10, 16))


@pytest.mark.parametrize("model", MODELS)
@given(counts=st.tuples(*[st.integers(0, 255)] * 3), action=st.sampled_from([0x00, 0x01, 0x09, 0x19, 0x39]))
def test_the_gripper_understands_what_the_driver_says(model, counts, action):
    gripper = Gripper(GRIPPERS[model], OwnFingers(GRIPPERS[model].stroke))
    gripper.write(0, list(command_registers(Action(action), *counts)))
    assert (gripper.activate, gripper.go_to, gripper.release) == (bool(action & 1), bool(action & 8), bool(action & 16))
    ours = MODELS[model]
    assert gripper.requested == counts[0]
    assert gripper.speed == pytest.approx(ours.speed[0] + (ours.speed[1] - ours.speed[0]) * counts[1] / 255)
    assert gripper.force == pytest.approx(ours.force_of(counts[2]))
    status = decode_status(gripper.status())
    assert (status.activated, status.requested, status.fault) == (gripper.activate, counts[0], gripper.fault)


def test_write_and_read_in_one_transaction():
    wire = frame(UNIT, read_write_registers(2000, 2, 1000, (0x0900, 0x00E6)))
    assert wire[:-2] == bytes.fromhex("0917 07D0 0002 03E8 0002 04 0900 00E6".replace(" ", ""))
