"""The maker's own Python SDK, unmodified, against the emulated bus: every instruction it has, and the defects it has."""

import time

import dynamixel_sdk as dxl
import pytest

from hardware.emulation.process import EmulatorProcess

BAUD = 1_000_000
SERVOS = """[{id: 1, model: XM430-W350}, {id: 2, model: XM430-W350, load_inertia: 0.005}, {id: 5, model: XL430-W250},
             {id: 11, model: MX-28, registers: {baud_rate: 1}}, {id: 12, model: MX-28}]"""
TORQUE, GOAL_CURRENT, GOAL_VELOCITY, PROFILE, GOAL, PRESENT, VOLTAGE = 64, 102, 104, 108, 116, 132, 144


@pytest.fixture(scope="module")
def emulator():
    with EmulatorProcess("dynamixel", "--servos", SERVOS, "--baud", BAUD, "--return-delay", 0) as process:
        yield process


@pytest.fixture
def port(emulator):
    emulator.clear()
    emulator.set(strict_stuffing=False)
    port = dxl.PortHandler(str(emulator.link))
    assert port.openPort() and port.setBaudRate(BAUD)
    yield port
    port.closePort()


@pytest.fixture
def two(port):
    """Protocol 2.0, all servos as after power-up. Timing of this machine under load is not the SDK's fault."""
    handler = dxl.PacketHandler(2.0)
    for id in (1, 2, 5):
        patiently(lambda id=id: handler.reboot(port, id))
    for id in (1, 2, 5):
        patiently(lambda id=id: handler.ping(port, id))
    return handler


@pytest.fixture
def one():
    return dxl.PacketHandler(1.0)


PATIENCE = 60.0  # [s]


def patiently(ask):
    """The first success of an SDK call, whose last but one (or last) value is its result: its time-outs are 34 ms of wall clock."""
    end = time.monotonic() + PATIENCE
    while True:
        answer = ask()
        if (answer if isinstance(answer, int) else answer[-2]) == dxl.COMM_SUCCESS:
            return answer
        assert time.monotonic() < end, f"no success within {PATIENCE:g} s: {answer}"
        time.sleep(0.1)  # a reply that comes too late would be taken for the next answer (defect 2)


def until(condition):
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, f"not within {PATIENCE:g} s"
        time.sleep(0.02)


def test_ping_read_write(port, two, emulator):
    assert patiently(lambda: two.ping(port, 1)) == (1020, 0, 0)
    assert patiently(lambda: two.ping(port, 5)) == (1060, 0, 0)
    assert patiently(lambda: two.write1ByteTxRx(port, 1, 65, 1)) == (0, 0)
    assert patiently(lambda: two.read1ByteTxRx(port, 1, 65)) == (1, 0, 0)
    assert patiently(lambda: two.write2ByteTxRx(port, 1, 84, 555)) == (0, 0)
    assert patiently(lambda: two.read2ByteTxRx(port, 1, 84)) == (555, 0, 0)
    assert patiently(lambda: two.write4ByteTxRx(port, 1, GOAL, 1234)) == (0, 0)
    assert patiently(lambda: two.read4ByteTxRx(port, 1, GOAL)) == (1234, 0, 0)
    replies = emulator.stats()["replies"]
    assert two.write1ByteTxOnly(port, 1, 65, 0) == 0
    until(lambda: emulator.stats()["replies"] > replies)
    time.sleep(0.1)  # else its status packet would be taken for the next answer
    assert patiently(lambda: two.read1ByteTxRx(port, 1, 65)) == (0, 0, 0)


def test_refusals(port, two):
    assert patiently(lambda: two.write1ByteTxRx(port, 1, TORQUE, 1)) == (0, 0)
    assert patiently(lambda: two.write1ByteTxRx(port, 1, 11, 1)) == (0, 7)
    assert patiently(lambda: two.write2ByteTxRx(port, 1, 84, 20000)) == (0, 4)
    assert patiently(lambda: two.write2ByteTxRx(port, 1, GOAL, 5)) == (0, 5)
    assert patiently(lambda: two.write4ByteTxRx(port, 1, GOAL, 5000)) == (0, 6)


def test_broadcast_ping(port, two):
    found = {}
    until(lambda: found.update(answer=two.broadcastPing(port)) or len(found["answer"][0]) == 3)
    everybody, result = found["answer"]
    assert result == 0 and everybody == {1: [1020, 45], 2: [1020, 45], 5: [1060, 45]} and list(everybody) == [1, 2, 5]


def test_registered_write_and_action(port, two):
    goal = [dxl.DXL_LOBYTE(900), dxl.DXL_HIBYTE(900), 0, 0]
    for id in (1, 2):
        assert patiently(lambda id=id: two.regWriteTxRx(port, id, GOAL, 4, goal)) == (0, 0)
    assert patiently(lambda: two.read1ByteTxRx(port, 1, 69)) == (1, 0, 0)
    two.action(port, dxl.BROADCAST_ID)
    assert [patiently(lambda id=id: two.read4ByteTxRx(port, id, GOAL))[0] for id in (1, 2)] == [900, 900]


def test_group_sync(port, two):
    write = dxl.GroupSyncWrite(port, two, PROFILE, 4)
    read, fast = dxl.GroupSyncRead(port, two, PROFILE, 4), dxl.GroupSyncRead(port, two, PROFILE, 4)
    for id, value in ((1, 70_000 % 32767), (5, 123), (2, 32_000)):
        assert write.addParam(id, list(value.to_bytes(4, "little"))) and read.addParam(id) and fast.addParam(id)
    assert patiently(write.txPacket) == 0
    assert patiently(read.txRxPacket) == 0
    assert [read.getData(id, PROFILE, 4) for id in (1, 5, 2)] == [70_000 % 32767, 123, 32_000]
    assert patiently(fast.fastSyncRead) == 0
    assert [fast.getData(id, PROFILE, 4) for id in (1, 5, 2)] == [70_000 % 32767, 123, 32_000]


def test_group_bulk(port, two):
    write = dxl.GroupBulkWrite(port, two)
    read, fast = dxl.GroupBulkRead(port, two), dxl.GroupBulkRead(port, two)
    assert write.addParam(1, GOAL, 4, list((777).to_bytes(4, "little"))) and write.addParam(5, 65, 1, [1])
    for group in (read, fast):
        assert group.addParam(1, GOAL, 4) and group.addParam(5, 65, 1)
    assert patiently(write.txPacket) == 0
    assert patiently(read.txRxPacket) == 0
    assert read.getData(1, GOAL, 4) == 777 and read.getData(5, 65, 1) == 1
    assert patiently(fast.fastBulkRead) == 0
    assert fast.getData(1, GOAL, 4) == 777 and fast.getData(5, 65, 1) == 1


def test_reboot_clear_and_factory_reset(port, two):
    patiently(lambda: two.write2ByteTxRx(port, 5, 84, 555))

    def silent():  # unless this machine sleeps through the 300 ms
        assert patiently(lambda: two.reboot(port, 5)) == (0, 0)
        return two.ping(port, 5)[1] == dxl.COMM_RX_TIMEOUT

    until(silent)
    patiently(lambda: two.ping(port, 5))
    assert patiently(lambda: two.read2ByteTxRx(port, 5, 84)) == (640, 0, 0)
    assert patiently(lambda: two.clearMultiTurn(port, 1)) == (0, 0)
    patiently(lambda: two.write1ByteTxRx(port, 5, 31, 60))
    assert patiently(lambda: two.factoryReset(port, 5, 0x02)) == (0, 0)
    patiently(lambda: two.ping(port, 5))
    assert patiently(lambda: two.read1ByteTxRx(port, 5, 31)) == (72, 0, 0)


def test_replies_with_the_header_pattern_are_unstuffed_by_the_sdk(port, two):
    for address, data in ((GOAL_CURRENT, [0xFF, 0xFF]), (GOAL_VELOCITY, [0xFD, 0xFF, 0xFF, 0xFF])):
        assert patiently(lambda address=address, data=data: two.writeTxRx(port, 1, address, len(data), data)) == (0, 0)
    data, result, error = patiently(lambda: two.readTxRx(port, 1, GOAL_CURRENT, 6))
    assert (data, result, error) == ([0xFF, 0xFF, 0xFD, 0xFF, 0xFF, 0xFF], 0, 0)


def test_defect_1_transmit_stuffing_is_lost_and_the_log_says_so(port, two, emulator):
    before = emulator.stats()["unstuffed"]
    write = dxl.GroupSyncWrite(port, two, GOAL_CURRENT, 6)
    write.addParam(1, [0xFF, 0xFF, 0xFD, 0xFF, 0xFF, 0xFF])  # goal current -1, goal velocity -3
    write.txPacket()
    patiently(lambda: two.ping(port, 1))
    stats = emulator.stats()
    assert stats["unstuffed"] == before + 1 and "unstuffed FF FF FD in instruction 83" in stats["events"][-1][1]
    assert patiently(lambda: two.read4ByteTxRx(port, 1, GOAL_VELOCITY)) == (0xFFFFFFFD, 0, 0)
    emulator.set(strict_stuffing=True)
    write.changeParam(1, [0xFF, 0xFF, 0xFD, 0xFF, 0xFF, 0x00])
    write.txPacket()
    patiently(lambda: two.ping(port, 1))
    assert "refused" in emulator.stats()["events"][-1][1]
    assert patiently(lambda: two.read4ByteTxRx(port, 1, GOAL_VELOCITY)) == (0xFFFFFFFD, 0, 0)


def test_defect_2_a_late_reply_is_taken_as_the_next_answer(port, two, emulator):
    emulator.inject("late_reply", by=0.055)

    def wrong():
        two.read4ByteTxRx(port, 1, PRESENT)
        value, result, _ = two.read2ByteTxRx(port, 1, VOLTAGE)
        return result == dxl.COMM_SUCCESS and value == 2048

    until(wrong)
    assert emulator.stats()["faults"]["late_reply"] >= 2


def test_defect_6_a_fast_bulk_read_is_refused_where_an_id_equals_an_earlier_byte(port, two, emulator):
    """It looks for id 2 among all bytes of the request and finds the length 2 of the servo before."""
    fast = dxl.GroupBulkRead(port, two)
    assert fast.addParam(5, 124, 2) and fast.addParam(2, 0, 10)

    def refused():
        data, result = [], fast.fastBulkReadTxPacket()
        if result == dxl.COMM_SUCCESS:
            data, result = two.rxPacket(port, True)
            port.is_using = False
        return result == dxl.COMM_SUCCESS and bytes(data[:9]) == bytes.fromhex("FF FF FD 00 FE 15 00 55 00")

    until(refused)  # the packet as it came is whole, and so says the SDK's own receiver
    until(lambda: fast.fastBulkRead() == dxl.COMM_RX_CORRUPT)


def test_wrong_rate_is_silence_and_a_scan_finds_the_right_one(port, two):
    answers = {}
    for baud in (9600, 57600, 115200, 1_000_000, 2_000_000):
        assert port.setBaudRate(baud)
        answers[baud] = any(two.ping(port, 1)[1] == dxl.COMM_SUCCESS for _ in range(20))
    assert answers == {9600: False, 57600: False, 115200: False, 1_000_000: True, 2_000_000: False}


def test_a_servo_follows_its_new_rate(port, two, emulator):
    def has_rate(code, rate):
        """Whoever misses the answer cannot ask again: the servo has its new rate then, and says so itself."""
        two.write1ByteTxRx(port, 2, 8, code)
        return any((servo["id"], servo["baud"]) == (2, rate) for servo in emulator.stats()["servos"])

    until(lambda: has_rate(4, 2_000_000))
    assert two.ping(port, 2)[1] == dxl.COMM_RX_TIMEOUT
    assert port.setBaudRate(2_000_000)
    patiently(lambda: two.ping(port, 2))
    until(lambda: has_rate(3, BAUD))
    assert port.setBaudRate(BAUD)
    assert patiently(lambda: two.ping(port, 2))[0] == 1020


def test_protocol_1(port, one):
    assert patiently(lambda: one.ping(port, 11)) == (29, 0, 0)
    assert patiently(lambda: one.write2ByteTxRx(port, 11, 30, 1000)) == (0, 0)
    assert patiently(lambda: one.read2ByteTxRx(port, 11, 30)) == (1000, 0, 0)
    assert patiently(lambda: one.write1ByteTxRx(port, 11, 25, 1)) == (0, 0)
    assert patiently(lambda: one.read1ByteTxRx(port, 11, 25)) == (1, 0, 0)
    assert patiently(lambda: one.write2ByteTxRx(port, 11, 34, 1024)) == (0, 8)
    assert patiently(lambda: one.regWriteTxRx(port, 11, 25, 1, [0])) == (0, 0)
    one.action(port, dxl.BROADCAST_ID)
    assert patiently(lambda: one.read1ByteTxRx(port, 11, 25)) == (0, 0, 0)
    write = dxl.GroupSyncWrite(port, one, 30, 4)
    for id in (11, 12):
        assert write.addParam(id, [0x2C, 0x01, 0x40, 0x00])
    patiently(write.txPacket)
    for id in (11, 12):
        assert patiently(lambda id=id: one.read4ByteTxRx(port, id, 30)) == (0x0040012C, 0, 0)


def test_protocol_1_bulk_read_by_hand(port, one):
    """The SDK's group class raises a TypeError (its defect 5); its packets are right."""
    with pytest.raises(TypeError):
        group = dxl.GroupBulkRead(port, one)
        group.addParam(11, 36, 2)
        group.txRxPacket()
    port.is_using = False

    def ask():
        result = one.bulkReadTx(port, [2, 11, 36, 1, 12, 43], 6)
        answers = [one.readRx(port, 11, 2), one.readRx(port, 12, 1)] if result == 0 else []
        return [a[0] for a in answers], max([result] + [-a[1] for a in answers]), 0

    data, _, _ = patiently(ask)
    assert data == [[0x00, 0x08], [25]]


def test_factory_reset_under_protocol_1(port, one, emulator):
    patiently(lambda: one.write1ByteTxRx(port, 12, 11, 70))

    def is_reset():
        """Whoever misses the answer cannot ask again: the servo has another id then, and says so itself."""
        one.factoryReset(port, 12)
        return all(servo["id"] != 12 for servo in emulator.stats()["servos"])

    until(is_reset)
    assert one.ping(port, 12)[1] == dxl.COMM_RX_TIMEOUT  # now id 1 at 57,600 baud, as from the factory
    assert port.setBaudRate(57600)
    assert patiently(lambda: one.ping(port, 1)) == (29, 0, 0)
