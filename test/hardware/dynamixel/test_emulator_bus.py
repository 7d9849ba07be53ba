"""Instructions and control tables of the emulated servos, without a port: packets in, status packets out."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardware.dynamixel.emulated_bus import Bus
from hardware.dynamixel.emulated_codec import Receiver1, checksum, crc16, fast_status2
from hardware.dynamixel.emulator import load_servos
from hardware.dynamixel.protocol2 import bulk_read, bulk_write

PING, READ, WRITE, REG_WRITE, ACTION, FACTORY_RESET, REBOOT, CLEAR = 1, 2, 3, 4, 5, 6, 8, 16
SYNC_READ, SYNC_WRITE, FAST_SYNC_READ, BULK_READ, BULK_WRITE, FAST_BULK_READ = 0x82, 0x83, 0x8A, 0x92, 0x93, 0x9A
BAUD = 57600


class Master:
    """Asks the bus; its clock is the test's."""

    def __init__(self, servos, **options):
        self.events, self.now = [], 0.0
        self.bus = Bus(load_servos(servos), self.events.append, **options)

    def raw(self, frame, baud=BAUD):
        return [reply for _, replies in self.bus.feed(frame, self.now, baud) for reply in replies]

    def ask(self, id, instruction, parameters=b"", baud=BAUD):
        """(id, error, data) of every status packet."""
        body = (bytes((instruction,)) + parameters).replace(b"\xff\xff\xfd", b"\xff\xff\xfd\xfd")
        head = b"\xff\xff\xfd\x00" + bytes((id,)) + (len(body) + 2).to_bytes(2, "little") + body
        found = []
        for reply in self.raw(head + crc16(head).to_bytes(2, "little"), baud):
            p = reply.packet
            assert p[:4] == b"\xff\xff\xfd\x00" and p[7] == 0x55 and crc16(p[:-2]).to_bytes(2, "little") == p[-2:]
            found.append((p[4], p[8], p[9:-2]))
        return found

    def ask1(self, id, instruction, parameters=b""):
        body = bytes((id, len(parameters) + 2, instruction)) + parameters
        found = []
        for reply in self.raw(b"\xff\xff" + body + bytes((checksum(body),))):
            p = reply.packet
            assert p[:2] == b"\xff\xff" and checksum(p[2:-1]) == p[-1] and p[3] == len(p) - 4
            found.append((p[2], p[4], p[5:-1]))
        return found

    def write(self, id, address, value, size):
        """Error number of a write."""
        ((_, error, _),) = self.ask(id, WRITE, word(address) + value.to_bytes(size, "little", signed=value < 0))
        return error

    def read(self, id, address, size, signed=False):
        ((_, error, data),) = self.ask(id, READ, word(address) + word(size))
        assert error & 0x7F == 0
        return int.from_bytes(data, "little", signed=signed)

    def run(self, seconds):
        for _ in range(round(seconds * 1000)):
            self.now += 1e-3
            self.bus.tick(self.now)


def word(value):
    return value.to_bytes(2, "little")


XM = "{id: %d, model: XM430-W350}"
ONE, THREE = "[%s]" % (XM % 1), "[%s, %s, {id: 3, model: XL430-W250}]" % (XM % 7, XM % 1)


def test_defaults_are_the_manuals():
    master = Master(ONE)
    eeprom = {
        (0, 2): 1020,
        (7, 1): 1,
        (8, 1): 1,
        (9, 1): 250,
        (11, 1): 3,
        (12, 1): 255,
        (20, 4): 0,
        (31, 1): 80,
        (32, 2): 160,
        (34, 2): 95,
        (36, 2): 885,
        (38, 2): 1193,
        (48, 4): 4095,
        (52, 4): 0,
        (63, 1): 52,
    }
    ram = {
        (64, 1): 0,
        (68, 1): 2,
        (70, 1): 0,
        (76, 2): 1920,
        (78, 2): 100,
        (80, 2): 0,
        (82, 2): 0,
        (84, 2): 800,
        (98, 1): 0,
        (100, 2): 885,
        (102, 2): 1193,
        (132, 4): 2048,
        (144, 2): 120,
        (146, 1): 25,
        (168, 2): 224,
        (222, 2): 251,
        (578, 2): 634,
    }
    for (address, size), value in (eeprom | ram).items():
        assert master.read(1, address, size) == value, address


def test_refusals_have_the_manuals_numbers():
    master = Master(ONE)
    assert master.write(1, 64, 1, 1) == 0
    assert master.write(1, 11, 1, 1) == 7  # EEPROM with torque on
    assert master.write(1, 36, 500, 2) == 7
    assert master.write(1, 132, 0, 4) == 7  # read-only
    assert master.write(1, 66, 0, 1) == 7  # nothing there
    assert master.write(1, 116, 100, 2) == 5  # two of four bytes
    assert master.write(1, 84, 16384, 2) == 4  # beyond the register's range
    assert master.write(1, 116, 4096, 4) == 6  # beyond the position limit
    assert master.write(1, 64, 0, 1) == 0
    assert master.write(1, 11, 2, 1) == 4  # no such mode
    assert master.write(1, 38, 1194, 2) == 4
    assert master.write(1, 38, 500, 2) == 0
    assert master.write(1, 102, 501, 2) == 6
    assert master.write(1, 102, -500, 2) == 0
    assert master.ask(1, 0x77) == [(1, 2, b"")]  # no such instruction
    assert master.ask(1, READ, word(600) + word(100)) == [(1, 7, b"")]


def test_a_refused_write_changes_nothing():
    master = Master(ONE)
    assert master.ask(1, WRITE, word(76) + word(5) + word(20000)) == [
        (1, 4, b"")
    ]  # the second of two gains is too large
    assert master.read(1, 76, 2) == 1920


def test_damaged_packets_are_answered_by_the_one_they_were_for():
    master = Master(THREE)
    good = bytes.fromhex("FFFFFD00 01 0300 01 194F")  # CRC off by one
    (reply,) = master.raw(good)
    assert reply.packet[4] == 1 and reply.packet[8] == 3 and master.bus.counts["crc_errors"] == 1


def test_broadcast_ping_answers_in_order_of_id():
    assert [(id, int.from_bytes(data[:2], "little")) for id, _, data in Master(THREE).ask(254, PING)] == [
        (1, 1020),
        (3, 1060),
        (7, 1020),
    ]


def test_status_return_level():
    master = Master(ONE)
    assert master.write(1, 68, 1, 1) == 0
    assert master.ask(1, WRITE, word(65) + b"\1") == [] and master.read(1, 65, 1) == 1
    assert master.ask(1, WRITE, word(68) + b"\0") == []
    assert master.ask(1, READ, word(65) + word(1)) == [] and len(master.ask(1, PING)) == 1


def test_sync_and_bulk_reads_answer_in_the_order_asked():
    master = Master(THREE)
    answers = master.ask(254, SYNC_READ, word(132) + word(4) + bytes((7, 3, 1)))
    assert [(id, error, int.from_bytes(data, "little")) for id, error, data in answers] == [
        (7, 0, 2048),
        (3, 0, 2048),
        (1, 0, 2048),
    ]
    bulk = master.ask(254, BULK_READ, bytes((3,)) + word(0) + word(2) + bytes((7,)) + word(144) + word(3))
    assert [(id, data) for id, _, data in bulk] == [(3, word(1060)), (7, word(120) + b"\x19")]
    assert [id for id, _, _ in master.ask(254, SYNC_READ, word(132) + word(4) + bytes((7, 99, 1)))] == [7, 1]


def test_fast_reads_answer_in_one_packet():
    master = Master(THREE)
    ((id, error, data),) = master.ask(254, FAST_SYNC_READ, word(144) + word(2) + bytes((7, 1)))
    assert id == 254 and (error, data[:3], data[5:9]) == (0, bytes((7,)) + word(120), bytes((0, 1)) + word(120))
    ((_, _, data),) = master.ask(
        254, FAST_BULK_READ, bytes((1,)) + word(0) + word(2) + bytes((3,)) + word(146) + word(1)
    )
    assert data[:3] == bytes((1,)) + word(1020) and data[5:8] == bytes((0, 3, 25))


def test_a_fast_bulk_read_is_the_manuals_example():
    """e-manual, Protocol 2.0, "Fast Bulk Read (0x9A)", Example: three XC330 with lengths 4, 2 and 1, to the last CRC."""
    answers = [(3, 0, bytes.fromhex("A6 00 00 00")), (7, 0, bytes.fromhex("A5 01")), (4, 0, b"\x1f")]
    assert fast_status2(answers, 7) == bytes.fromhex(
        "FF FF FD 00 FE 14 00 55 00 03 A6 00 00 00 67 A4 00 07 A5 01 24 74 00 04 1F D9 C1"
    )


def test_a_bulk_instruction_counts_a_servo_once():
    """e-manual, "Bulk Write": the same id cannot be used multiple times. Which item counts is this emulator's decision."""
    master = Master(THREE)
    twice = [bytes((1,)) + word(108) + word(4) + value.to_bytes(4, "little") for value in (5, 6)]
    master.ask(254, BULK_WRITE, twice[0] + twice[1] + bytes((7,)) + word(65) + word(1) + b"\1")
    assert (master.read(1, 108, 4), master.read(7, 65, 1)) == (5, 1) and "twice" in master.events[-1]
    reads = bytes((1,)) + word(0) + word(2) + bytes((1,)) + word(7) + word(1)
    assert [data for _, _, data in master.ask(254, BULK_READ, reads)] == [word(1020)]
    for bad in (lambda: bulk_write([(1, 65, b"1"), (1, 64, b"1")]), lambda: bulk_read([(1, 65, 1), (1, 64, 1)])):
        with pytest.raises(ValueError, match="each servo once"):
            bad()


def test_clear_brings_the_position_into_one_turn_when_it_stands():
    """e-manual, "Clear (0x10)": present position 0 to 4095; Result Fail while the servo moves."""
    master = Master(THREE)
    turns = bytes.fromhex("01 44 58 4C 22")
    master.write(1, 11, 4, 1)
    master.write(1, 64, 1, 1)
    master.write(1, 116, 10_000, 4)
    master.run(0.2)
    assert master.read(1, 122, 1) == 1 and master.ask(1, CLEAR, turns) == [(1, 1, b"")]
    master.run(3.0)
    before = master.read(1, 132, 4)
    assert before > 4096 and master.read(1, 122, 1) == 0 and master.ask(1, CLEAR, turns) == [(1, 0, b"")]
    assert master.read(1, 132, 4) == before % 4096 == master.read(1, 116, 4)
    master.run(1.0)
    assert abs(master.read(1, 132, 4) - before % 4096) <= 1
    assert master.ask(1, CLEAR, b"\x01\x44\x58\x4c\x23") == [(1, 4, b"")]


def test_sync_and_bulk_writes_are_silent_and_refusals_logged():
    master = Master(THREE)
    assert master.ask(254, SYNC_WRITE, word(108) + word(4) + bytes((1, 5, 0, 0, 0, 7, 6, 0, 0, 0))) == []
    assert [master.read(id, 108, 4) for id in (1, 7)] == [5, 6]
    assert (
        master.ask(
            254, BULK_WRITE, bytes((1,)) + word(65) + word(1) + b"\1" + bytes((3,)) + word(84) + word(2) + word(99)
        )
        == []
    )
    assert (master.read(1, 65, 1), master.read(3, 84, 2)) == (1, 99)
    master.ask(254, SYNC_WRITE, word(116) + word(4) + bytes((1,)) + (9999).to_bytes(4, "little"))
    assert master.bus.counts["writes_refused"] == 1 and "data limit" in master.events[-1]


def test_registered_writes_wait_for_the_action():
    master = Master(THREE)
    assert master.ask(1, ACTION) == [(1, 2, b"")]  # without a registered write
    assert master.ask(1, REG_WRITE, word(65) + b"\1") == [(1, 0, b"")]
    assert master.ask(1, REG_WRITE, word(84) + word(20000)) == [(1, 4, b"")]
    assert master.ask(7, REG_WRITE, word(65) + b"\1") == [(7, 0, b"")]
    assert (master.read(1, 65, 1), master.read(1, 69, 1)) == (0, 1)
    assert master.ask(254, ACTION) == []
    assert [(master.read(id, 65, 1), master.read(id, 69, 1)) for id in (1, 7)] == [(1, 0), (1, 0)]


def test_indirect_data_is_what_its_pointers_say():
    master = Master(ONE)
    for slot, target in enumerate([132, 133, 134, 135, 126, 127, 116, 117, 118, 119, 65]):
        assert master.write(1, 168 + 2 * slot, target, 2) == 0
    assert master.read(1, 224, 4) == 2048
    goal = (1234).to_bytes(4, "little")
    assert master.ask(1, WRITE, word(230) + goal + b"\1") == [(1, 0, b"")]
    assert (master.read(1, 116, 4), master.read(1, 65, 1), master.read(1, 230, 4)) == (1234, 1, 1234)
    assert master.write(1, 168, 63, 2) == 4 and master.write(1, 168, 662, 2) == 4  # EEPROM, and beyond the table
    assert master.write(1, 230, 5, 2) == 5  # half of a register, through its pointers
    assert master.write(1, 224, 0, 4) == 7  # present position, through its pointers
    assert master.ask(1, WRITE, word(230) + (5000).to_bytes(4, "little")) == [(1, 6, b"")]
    assert (
        master.write(1, 235, 77, 1) == 0 and master.read(1, 235, 1) == 77
    )  # a slot that points to itself: a byte of its own


def test_xl330_has_20_slots_with_their_data_at_208():
    master = Master("[{id: 1, model: XL330-M288}]")
    assert master.read(1, 168, 2) == 208 and master.read(1, 206, 2) == 227
    assert master.write(1, 168, 146, 2) == 0 and master.read(1, 208, 1) == 25
    assert master.ask(1, READ, word(228) + word(1)) == [(1, 7, b"")]


def test_models_without_current_sensing_lack_its_registers():
    master = Master("[{id: 1, model: XL430-W250}]")
    assert master.write(1, 102, 0, 2) == 7 and master.write(1, 38, 0, 2) == 7 and master.write(1, 11, 0, 1) == 4


def test_reboot_is_silent_for_300_ms_and_forgets_ram():
    master = Master(ONE)
    master.write(1, 38, 700, 2)
    master.write(1, 84, 5, 2)
    master.write(1, 168, 132, 2)
    master.write(1, 64, 1, 1)
    assert master.ask(1, REBOOT) == [(1, 0, b"")]
    master.run(0.29)
    assert master.ask(1, PING) == []
    master.run(0.02)
    assert len(master.ask(1, PING)) == 1
    assert [master.read(1, *at) for at in ((64, 1), (84, 2), (168, 2), (38, 2))] == [0, 800, 224, 700]


def test_factory_reset_keeps_what_it_is_told_to():
    master = Master("[{id: 9, model: XM430-W350, registers: {baud_rate: 3, return_delay_time: 0}}]")
    assert master.ask(254, FACTORY_RESET, b"\xff", baud=10**6) == []  # not for everyone at once
    assert master.ask(9, FACTORY_RESET, b"\2", baud=10**6) == [(9, 0, b"")]
    master.run(0.31)
    assert master.ask(9, READ, word(9) + word(1), baud=10**6) == [(9, 0, b"\xfa")]
    assert master.ask(9, FACTORY_RESET, b"\xff", baud=10**6) == [(9, 0, b"")]
    master.run(0.31)
    assert master.ask(9, PING, baud=10**6) == [] and len(master.ask(1, PING)) == 1


def test_a_new_id_and_a_new_rate_hold_from_the_next_packet():
    master = Master(ONE)
    assert master.ask(1, WRITE, word(7) + b"\x05") == [(1, 0, b"")]
    assert master.ask(1, PING) == [] and master.read(5, 7, 1) == 5
    assert master.ask(5, WRITE, word(8) + b"\x03") == [(5, 0, b"")]
    assert master.ask(5, PING) == [] and len(master.ask(5, PING, baud=1_000_000)) == 1


def test_return_delay_precedes_the_reply():
    master = Master("[{id: 1, model: XM430-W350, registers: {return_delay_time: 100}}, {id: 2, model: XM430-W350}]")
    frame = bytes.fromhex("FFFFFD00 FE 0900 82 8400 0400 01 02 CEFA")
    assert [reply.gap for reply in master.raw(frame)] == pytest.approx([200e-6, 500e-6])


def test_a_missing_servo_leaves_its_turn_silent():
    master = Master("[{id: 2, model: XM430-W350}]")
    (reply,) = master.raw(bytes.fromhex("FFFFFD00 FE 0900 82 8400 0400 01 02 CEFA"))
    assert reply.packet[4] == 2 and reply.gap == pytest.approx(500e-6 + 15 * 10 / 57600)


def test_unstuffed_packets_are_logged_and_refused_if_strict():
    body = b"\x03" + word(102) + b"\xff\xff\xfd\xff\xff\xff"  # goal current -1, goal velocity -3
    head = b"\xff\xff\xfd\x00\x01" + (len(body) + 2).to_bytes(2, "little") + body
    frame = head + crc16(head).to_bytes(2, "little")
    lenient, strict = Master(ONE), Master(ONE, strict_stuffing=True)
    (reply,) = lenient.raw(frame)
    assert reply.packet[8] == 0 and lenient.read(1, 102, 2) == 0xFFFF and lenient.read(1, 104, 4) == 0xFFFFFFFD
    assert strict.raw(frame) == [] and strict.read(1, 104, 4) == 0
    assert "unstuffed" in lenient.events[0] and "refused" in strict.events[0]


def test_two_servos_of_one_id_garble_each_other():
    master = Master("[{id: 1, model: XM430-W350}, {id: 1, model: XL430-W250}]")
    (reply,) = master.raw(bytes.fromhex("FFFFFD00 01 0300 01 194E"))
    assert crc16(reply.packet[:-2]).to_bytes(2, "little") != reply.packet[-2:]


# -- Protocol 1.0 ----------------------------------------------------------------------------------
HEAD = "[{id: 1, model: MX-28}, {id: 2, model: MX-28}]"


def test_mx28_table():
    master = Master(HEAD)
    assert master.ask1(1, PING) == [(1, 0, b"")]
    for address, size, value in (
        (0, 2, 29),
        (3, 1, 1),
        (4, 1, 34),
        (6, 2, 0),
        (8, 2, 4095),
        (24, 1, 0),
        (28, 1, 32),
        (34, 2, 1023),
        (36, 2, 2048),
        (42, 1, 120),
        (43, 1, 25),
    ):
        assert master.ask1(1, READ, bytes((address, size))) == [(1, 0, value.to_bytes(size, "little"))], address


def test_mx28_errors_are_bits():
    master = Master(HEAD)
    assert master.ask1(1, WRITE, bytes((6,)) + word(1000) + word(3000)) == [(1, 0, b"")]
    assert master.ask1(1, WRITE, bytes((30,)) + word(3500)) == [(1, 2, b"")]  # beyond the angle limits
    assert master.ask1(1, WRITE, bytes((34,)) + word(1024)) == [(1, 8, b"")]
    assert master.ask1(1, 0x55) == [(1, 64, b"")]
    (reply,) = master.raw(bytes.fromhex("FFFF 01 02 01 00"))
    assert reply.packet[4] == 16


def test_mx28_groups():
    master = Master(HEAD)
    assert master.ask1(254, SYNC_WRITE, bytes((30, 4, 1)) + word(1000) + word(50) + b"\2" + word(2000) + word(60)) == []
    assert master.ask1(2, READ, bytes((30, 4))) == [(2, 0, word(2000) + word(60))]
    assert master.ask1(254, BULK_READ, bytes((0, 2, 2, 36, 1, 1, 43))) == [(2, 0, word(2048)), (1, 0, b"\x19")]
    assert master.ask1(1, REG_WRITE, bytes((25, 1))) == [(1, 0, b"")]
    assert master.ask1(254, ACTION) == [] and master.ask1(1, READ, bytes((25, 1))) == [(1, 0, b"\1")]


def test_protocol_1_broadcast_ping_collides():
    frame = bytes.fromhex("FFFF FE 02 01 FE")
    (reply,) = Master(HEAD).raw(frame)
    assert not any(request.valid for request in Receiver1().feed(reply.packet))
    (alone,) = Master("[{id: 1, model: MX-28}]").raw(frame)
    assert alone.packet == bytes.fromhex("FFFF 01 02 00 FC")


def test_both_protocols_share_a_bus():
    master = Master("[{id: 1, model: MX-28}, {id: 2, model: MX-28(2.0)}]")
    assert master.ask1(1, PING) == [(1, 0, b"")] and master.ask1(2, PING) == []
    assert master.ask(2, PING)[0][2][:2] == word(30) and master.ask(1, PING) == []


instructions = st.one_of(
    st.sampled_from(
        [
            PING,
            READ,
            WRITE,
            REG_WRITE,
            ACTION,
            FACTORY_RESET,
            REBOOT,
            CLEAR,
            SYNC_READ,
            SYNC_WRITE,
            FAST_SYNC_READ,
            BULK_READ,
            BULK_WRITE,
            FAST_BULK_READ,
        ]
    ),
    st.integers(0, 254),
)
#: parameters that get somewhere: addresses and lengths within a table, ids that exist, and anything at all
parameters = st.lists(
    st.one_of(st.sampled_from([0, 1, 2, 4, 7, 30, 36, 64, 98, 116, 120, 168, 224]), st.integers(0, 255)), max_size=24
).map(bytes)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    st.lists(
        st.tuples(st.booleans(), st.sampled_from([1, 2, 3, 254]), instructions, parameters), min_size=1, max_size=40
    )
)
def test_no_request_upsets_the_bus(requests):
    """Answers stay well-formed (`ask` checks), and values stay numbers that can be published."""
    master = Master("[{id: 1, model: XM430-W350}, {id: 2, model: MX-28}, {id: 3, model: XL330-M288}]")
    for first, id, instruction, data in requests:
        if instruction == 0x55:
            continue
        for servo, (own, baud) in zip(
            master.bus.servos, ((1, 1), (2, 34), (3, 1)), strict=True
        ):  # none is lost to a new id or rate
            servo.off_until, servo.table["id"], servo.table["baud_rate"] = 0.0, own, baud
        master.bus.renumber()
        (master.ask1 if first else master.ask)(id, instruction, data)
        master.run(0.004)
    master.bus.publish(master.now)
    assert all(value == value for value in master.bus.motors.q)


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{a: 1}",
        "[{id: 1}]",
        "[{id: 300, model: XM430-W350}]",
        "[{id: 1, model: nothing}]",
        "[{id: 1, model: MX-28, colour: red}]",
        "[{id: 1, model: MX-28, registers: {current_limit: 1}}]",
        "/no/such/file.yaml",
    ],
)
def test_unusable_descriptions_are_refused_in_one_sentence(text):
    with pytest.raises(ValueError) as refused:
        load_servos(text)
    assert "\n" not in str(refused.value).strip() and len(str(refused.value)) > 20
