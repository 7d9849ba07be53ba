"""RDT and the configuration page: golden bytes, exact units, exact accounts, and what no sensor would send."""

import struct
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardware.link import DeviceError
from hardware.netft.configuration import FORCE_UNITS, TORQUE_UNITS, parse_configuration
from hardware.netft.protocol import (
    RECORD,
    STATUS_BITS,
    Command,
    SequenceAccount,
    decode_records,
    encode_request,
    error_bits,
    status_names,
)

# A page of a Gamma SI-330-30 with firmware 2.2.59, shortened.
PAGE = """<?xml version="1.0"?><netft><runstat>0x00000000</runstat><runrate>7000</runrate><cfgcalsn>FT27462</cfgcalsn>
<scfgfu>{force}</scfgfu><scfgtu>{torque}</scfgtu><cfgcpf>{cpf}</cfgcpf><cfgcpt>{cpt}</cfgcpt><cfgmr>330;330;990;30;30;30</cfgmr>
<comrdte>Enabled</comrdte><comrdtrate>100</comrdtrate><comrdtbsiz>{size}</comrdtbsiz><mfgdigver>2.2.59</mfgdigver></netft>"""


def page(force="N", torque="Nm", cpf=1_000_000, cpt=1_000_000, size=1):
    return PAGE.format(size=size, force=force, torque=torque, cpf=cpf, cpt=cpt)


# ---- F1: golden bytes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command, count, golden",
    [
        (Command.STOP, 0, "1234000000000000"),
        (Command.REAL_TIME, 0, "1234000200000000"),
        (Command.REAL_TIME, 10, "123400020000000a"),
        (Command.BUFFERED, 0, "1234000300000000"),
        (Command.MULTI_UNIT, 0, "1234000400000000"),
        (Command.AXIA, 0, "1234000100000000"),
        (Command.RESET_LATCH, 0, "1234004100000000"),
        (Command.SOFTWARE_BIAS, 0, "1234004200000000"),
    ],
)
def test_requests(command, count, golden):
    assert encode_request(command, count).hex() == golden


def test_records():
    data = bytes.fromhex(
        "00000001 00000007 80020000 000f4240 fff0bdc0 7fffffff 80000000 00000000 ffffffff".replace(" ", "")
    )
    first, second = decode_records(data + data[:35] + b"\x00")
    assert (first["rdt_sequence"], first["ft_sequence"], first["status"]) == (1, 7, 0x80020000)
    assert first["counts"].tolist() == [1_000_000, -1_000_000, 2**31 - 1, -(2**31), 0, -1]
    assert second["counts"][5] == -256
    assert status_names(0x80020000) == ["transducer saturation or A/D error"] and error_bits(0x80030000) == 0
    assert error_bits(0x90000000) == 1 << 28 and status_names(1 << 28) == ["analog board error"]
    assert set(STATUS_BITS) == set(range(1, 31)) - {15}


# ---- F3: units ------------------------------------------------------------------------------------------------------

# SI values as ratios of integers: international pound 0.45359237 kg, inch 0.0254 m, standard gravity 9.80665 m/s^2.
POUND = Fraction("0.45359237") * Fraction("9.80665")
EXACT = {
    "N": 1,
    "kN": 1000,
    "lbf": POUND,
    "klbf": 1000 * POUND,
    "kgf": Fraction("9.80665"),
    "gf": Fraction("0.00980665"),
    "N-m": 1,
    "N-mm": Fraction(1, 1000),
    "kN-m": 1000,
    "lbf-in": POUND * Fraction("0.0254"),
    "lbf-ft": POUND * Fraction("0.3048"),
    "kgf-cm": Fraction("0.0980665"),
}


@pytest.mark.parametrize("force", FORCE_UNITS)
@pytest.mark.parametrize("torque", TORQUE_UNITS)
def test_counts_to_si(force, torque):
    configuration = parse_configuration(page(force, torque, 123_457, 7_654_321))
    counts = np.array([1, -(2**31), 2**31 - 1, 123_457, -7_654_321, 99])
    exact = [
        Fraction(int(c)) * EXACT[u] / n
        for c, u, n in zip(counts, [force] * 3 + [torque] * 3, [123_457] * 3 + [7_654_321] * 3)
    ]
    for found, expected in zip(counts * configuration.scale, exact):
        # Three roundings: conversion factor, division by the counts, product.
        assert abs(Fraction(float(found)) - expected) <= abs(expected) * 4 * Fraction(2) ** -53
    np.testing.assert_allclose(configuration.rated[2], 990 * float(EXACT[force]), rtol=1e-15)


@pytest.mark.parametrize("spelling", ["N-m", "Nm", "N.m", "n-M"])
def test_spellings_of_one_unit(spelling):
    assert parse_configuration(page(torque=spelling)).scale[5] == 1e-6


def test_page_of_a_real_sensor():
    c = parse_configuration(page())
    assert (c.identity.serial, c.identity.firmware, c.rdt_rate, c.internal_rate, c.buffer_size, c.status) == (
        "FT27462",
        "2.2.59",
        100,
        7000,
        1,
        0,
    )
    np.testing.assert_array_equal(c.rated, [330, 330, 990, 30, 30, 30])


@pytest.mark.parametrize(
    "broken, what",
    [
        ("", "no XML"),
        ("<netft></netft>", "scfgfu"),
        (page(force="stone"), "stone.*kgf"),
        (page(torque=""), "scfgtu"),
        (page(cpf=0), "cfgcpf"),
        (page(cpf="nan"), "cfgcpf"),
        (page(cpt="-5"), "cfgcpt"),
        (page(cpt="many"), "many"),
        *(
            (page(size=size), "comrdtbsiz.*from 1 to 40")
            for size in ("0", "41", "-3", "2.5", "nan", "1e9", "9" * 400, "x")
        ),
    ],
)
def test_pages_that_must_not_be_believed(broken, what):
    with pytest.raises(DeviceError, match=what):
        parse_configuration(broken)


@settings(max_examples=60, deadline=None)
@given(
    st.one_of(
        st.binary(max_size=300),
        st.text(max_size=300),
        st.builds(page, *[st.text("Nlbf-kg<>&0123456789.einf", max_size=8)] * 4),
    )
)
def test_any_page_is_read_or_refused(text):
    try:
        configuration = parse_configuration(text)
    except DeviceError:
        return
    assert np.isfinite(configuration.scale).all() and (configuration.scale > 0).all()


# ---- F4: accounts ---------------------------------------------------------------------------------------------------


def records(numbers, step=7, first=1):
    """Records with these numbers of a stream that began with number `first`."""
    made = np.zeros(len(numbers), RECORD)
    made["rdt_sequence"] = np.array(numbers, dtype=np.uint64) % 2**32
    made["ft_sequence"] = [(1000 + (n - first) * step) % 2**32 for n in numbers]
    return made


def feed(account, made, sizes):
    """All records in blocks of these sizes; numbers of those accepted."""
    accepted, at = [], 0
    while at < len(made):
        size = sizes[len(accepted) % len(sizes)] if sizes else len(made)
        accepted += [account.accept(made[at : at + size])["rdt_sequence"].tolist()]
        at += size
    return [n for block in accepted for n in block]


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(10, 200),
    st.floats(0, 0.3),
    st.floats(0, 0.3),
    st.floats(0, 0.3),
    st.lists(st.integers(1, 40), min_size=1, max_size=5),
    st.integers(0, 2**32 - 1),
    st.sampled_from([1, 7, 700]),
)
def test_accounts_are_exact_whatever_is_mixed(first, n, loss, swap, double, sizes, seed, step):
    """A network that loses, delays and doubles; the counters are what it did, to the last record, around the wrap too."""
    rng = np.random.default_rng(seed)
    sent, held, arrived = list(range(first, first + n)), None, []
    lost = late = doubled = 0
    for i, number in enumerate(sent):
        inner = 0 < i < n - 1  # the first and the last arrive, else nobody could know of them
        if inner and held is None and rng.random() < loss:
            lost += 1
            continue
        if inner and held is None and rng.random() < swap:
            held = number
            continue
        arrived.append(number)
        if rng.random() < double:
            arrived.append(number)
            doubled += 1
        if held is not None:
            arrived.append(held)
            late, held = late + 1, None
    account = SequenceAccount()
    accepted = feed(account, records(arrived, step, first), sizes)
    assert (account.lost, account.late, account.duplicates, account.restarts) == (lost, late, doubled, 0)
    assert len(accepted) == n - lost - late
    assert accepted == [m % 2**32 for m in sorted(set(arrived)) if m % 2**32 in set(accepted)]


class Counted(np.ndarray):
    """An array that counts how often it is written or read."""

    touched = 0

    def __setitem__(self, key, value):
        Counted.touched += 1
        super().__setitem__(key, value)

    def __getitem__(self, key):
        Counted.touched += 1
        return super().__getitem__(key)


@pytest.mark.parametrize("jump", [2, 4095, 4096, 4097, 5000, 2**31 - 1, 3_000_000_000, 2**32 - 100])
def test_a_forged_record_costs_as_little_as_a_true_one(jump):
    """Whatever numbers a hundred of the longest datagrams claim: at most six operations on the memory for each record."""
    account = SequenceAccount()
    account._state, account._ft = account._state.view(Counted), account._ft.view(Counted)
    made = records(np.arange(4000) * jump % 2**32)
    made["ft_sequence"] = np.arange(4000, dtype=np.uint64) * (jump + 1) % 2**32
    Counted.touched = 0
    for block in made.reshape(100, 40):
        account.accept(block)
    assert Counted.touched <= 6 * len(made)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 3 * SequenceAccount.HISTORY))
def test_what_a_jump_leaves_out_is_missing(newest, ahead):
    """The late record of every number that is remembered is late, takes one off the lost, and comes a second time as a duplicate."""
    account = SequenceAccount()
    made = records([newest, newest + ahead], first=newest)
    account.accept(made)
    missing = range(max(1, ahead - account.HISTORY + 1), ahead)
    for back in {missing[0], missing[len(missing) // 2], missing[-1]}:
        lost, late = account.lost, account.late
        one = records([newest + back], first=newest)
        assert len(account.accept(one)) == 0 and (account.lost, account.late) == (lost - 1, late + 1)
        assert len(account.accept(one)) == 0 and account.duplicates > 0


@pytest.mark.parametrize("before", [3, 100, 20_000])
def test_a_stream_that_begins_anew_loses_nothing(before):
    account = SequenceAccount()
    old = records(range(1, before + 1))
    new = records(range(1, 51))
    new["ft_sequence"] += np.uint32(7 * before)
    assert len(account.accept(old)) == before and len(account.accept(new)) == 50
    assert (account.lost, account.late, account.duplicates, account.restarts) == (0, 0, 0, 1)


def test_a_jump_beyond_the_internal_counter_is_no_loss():
    account = SequenceAccount()
    jump = records([1, 2, 3, 500_000])
    jump["ft_sequence"][3] = jump["ft_sequence"][2] + 7
    account.accept(jump)
    assert (account.lost, account.restarts) == (0, 1)


def test_a_loss_longer_than_the_memory_is_counted():
    account = SequenceAccount()
    account.accept(records([1, 2, 100_003]))
    assert (account.lost, account.restarts) == (100_000, 0)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(*[st.integers(0, 2**32 - 1)] * 2), max_size=50), st.binary(max_size=36 * 5))
def test_any_records_are_accounted_for(numbers, data):
    account = SequenceAccount()
    made = np.zeros(len(numbers), RECORD)
    for name, column in zip(("rdt_sequence", "ft_sequence"), zip(*numbers) if numbers else ([], [])):
        made[name] = column
    accepted = account.accept(made)
    assert account.lost >= 0 and len(accepted) + account.late + account.duplicates == len(made)
    if len(data) % 36 == 0:
        assert len(decode_records(data)) == len(data) // 36
    else:
        with pytest.raises(ValueError):
            decode_records(data)


def test_golden_record_by_hand():
    """The same record through struct, which the decoder does not use."""
    data = struct.pack(">IIIiiiiii", 5, 6, 7, 1, -2, 3, -4, 5, -6)
    (record,) = decode_records(data)
    assert record["counts"].tolist() == [1, -2, 3, -4, 5, -6] and len(data) == RECORD.itemsize == 36
