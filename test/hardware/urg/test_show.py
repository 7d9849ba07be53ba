"""The look without ROS that the bring-up page begins with."""

from hardware.urg.show import main


def test_a_summary_and_a_picture(emulate, tmp_path, capsys):
    emulator = emulate("--rpm", "2400")
    assert main([str(emulator.link), "--scans", "5", "--image", str(tmp_path / "scan.png")]) == 0
    said = capsys.readouterr().out
    assert said.startswith("URG-04LX, serial H0614967") and "scans of 682 points from -2.0862 to 2.0923 rad" in said
    assert "straight ahead 1.6" in said or "straight ahead 1.5" in said
    assert (tmp_path / "scan.png").read_bytes().startswith(b"\x89PNG") and not emulator.stats()["laser"]


def test_a_refusal_and_nobody(emulate, capsys):
    emulator = emulate("--rs232", "115200")
    assert main([str(emulator.link)]) == 1
    assert "need 143.5 kbit/s" in capsys.readouterr().err
