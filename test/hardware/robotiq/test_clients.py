"""G2: unmodified Modbus clients, and the gripper's own, work the emulated gripper.

The fourth, mbpoll, is a program (Debian package mbpoll); where it is missing its test is skipped.
"""

import re
import shutil
import subprocess
import time

import pytest

pymodbus = pytest.importorskip("pymodbus.client")
minimalmodbus = pytest.importorskip("minimalmodbus")

ACTIVATE, GO = 0x0100, 0x0900


def poll(read, done, limit=15.0):
    """Registers 2000-2002 once `done(status byte, fault, position)`."""
    end = time.monotonic() + limit
    while True:
        a, b, c = read()
        if done(a >> 8, b >> 8, c >> 8):
            return a >> 8, b >> 8, c >> 8
        assert time.monotonic() < end, (hex(a), hex(b), hex(c))
        time.sleep(0.01)


def test_pymodbus(gripper):
    client = pymodbus.ModbusSerialClient(port=str(gripper.link), baudrate=115200, timeout=2.0)
    assert client.connect()

    def checked(response):
        assert not response.isError(), response
        return response.registers

    try:

        def status():
            return checked(client.read_input_registers(2000, count=3, device_id=9))

        checked(client.write_registers(1000, [ACTIVATE, 0, 0], device_id=9))
        assert poll(status, lambda s, fault, position: s >> 4 & 3 == 3)[0] == 0x31
        gripper.set(object_width=0.040)
        checked(client.write_registers(1000, [GO, 255, 0xFFFF], device_id=9))
        assert poll(status, lambda s, fault, position: s >> 6) == (0xB9, 0, 123)
        assert checked(client.read_holding_registers(1000, count=3, device_id=9)) == [GO, 255, 0xFFFF]
        checked(client.write_register(1001, 0, device_id=9))
        assert poll(status, lambda s, fault, position: s >> 6 == 3) == (0xF9, 0, 3)
        moving = checked(
            client.readwrite_registers(
                read_address=2000, read_count=3, write_address=1000, values=[GO, 200, 0xFFFF], device_id=9
            )
        )
        assert moving[0] == 0x3900 and moving[1] == 200
        refused = client.read_input_registers(0, count=1, device_id=9)
        assert refused.isError() and refused.exception_code == 2
    finally:
        client.close()


def test_minimalmodbus(gripper):
    client = minimalmodbus.Instrument(str(gripper.link), 9, close_port_after_each_call=False)
    client.serial.baudrate, client.serial.timeout = 115200, 0.5
    try:

        def status():
            return client.read_registers(2000, 3, functioncode=4)

        client.write_registers(1000, [ACTIVATE, 0, 0])
        assert poll(status, lambda s, fault, position: s >> 4 & 3 == 3)[0] == 0x31
        client.write_registers(1000, [GO, 255, 0xFFFF])
        assert poll(status, lambda s, fault, position: s >> 6 == 3) == (0xF9, 0, 230)
        client.write_register(1001, 0, functioncode=6)
        assert (
            poll(lambda: client.read_registers(2000, 3, functioncode=3), lambda s, fault, position: s >> 6 == 3)[2] == 3
        )
        with pytest.raises(minimalmodbus.IllegalRequestError):
            client.read_register(0, functioncode=4)
    finally:
        client.serial.close()


def test_pyrobotiqgripper(gripper):
    module = pytest.importorskip("pyrobotiqgripper")
    hand = module.RobotiqGripper(com_port=str(gripper.link))
    try:
        hand.activate()
        assert hand.isActivated()
        hand.close()
        assert hand.position() == 230
        gripper.set(object_width=0.030)
        hand.open()
        assert hand.position() == 3
        hand.close()
        assert hand.status()["gOBJ"] == 2 and hand.position() == round(3 + 227 * 55 / 85)
        hand.calibrate_bit(openbit=3, closebit=230)
        hand.calibrate_mm(closemm=0.0, openmm=85.0)
        hand.move_mm(60.0)
        assert abs(hand.position_mm() - 60.0) <= 0.4 and abs(1e3 * gripper.stats()["width"] - 60.0) <= 0.4
        gripper.inject("overcurrent")
        with pytest.raises(module.GripperFaultError):
            hand.readStatus()
        gripper.set(object_width=None)
        hand.activate()
        assert hand.status()["gFLT"] == 0
    finally:
        hand.disconnect()


def test_mbpoll(gripper):
    """libmodbus, as people call it from a shell."""
    program = shutil.which("mbpoll")
    if program is None:
        pytest.skip("mbpoll is not installed: sudo apt-get install mbpoll")

    def mbpoll(kind, first, *words):
        """Registers from `first` on, or `words` written there."""
        count = [] if words else ["-c", "3", "-1"]
        done = subprocess.run(
            [
                program,
                "-m",
                "rtu",
                "-a",
                "9",
                "-b",
                "115200",
                "-P",
                "none",
                "-o",
                "2",
                "-0",
                "-t",
                kind,
                "-r",
                str(first),
                *count,
                str(gripper.link),
                *map(str, words),
            ],
            capture_output=True,
            text=True,
            timeout=20.0,
        )
        return (
            done.returncode,
            [int(value) for value in re.findall(r"^\[\d+\]:\s+(\d+)", done.stdout, re.M)],
            done.stdout + done.stderr,
        )

    def status():
        code, registers, said = mbpoll("3", 2000)
        assert code == 0 and len(registers) == 3, said
        return registers

    assert mbpoll("4", 1000, ACTIVATE, 0, 0)[0] == 0
    assert poll(status, lambda s, fault, position: s >> 4 & 3 == 3)[0] == 0x31
    gripper.set(object_width=0.040)
    assert mbpoll("4", 1000, GO, 255, 0xFFFF)[0] == 0
    assert poll(status, lambda s, fault, position: s >> 6) == (0xB9, 0, 123)
    assert mbpoll("4", 1000)[1] == [GO, 255, 0xFFFF]
    code, _, said = mbpoll("3", 0)
    assert code != 0 or "Illegal data address" in said, said
