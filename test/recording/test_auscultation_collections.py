"""Small files of the public collections, written as they are published, read back; and damaged ones."""

import struct
import wave

import numpy as np
import pytest

from recording.auscultation.cinc2016 import find_cinc2016
from recording.auscultation.circor import find_circor
from recording.auscultation.collected import CollectionError, Segment
from recording.auscultation.icbhi import find_icbhi
from recording.auscultation.wav_file import read_wav
from recording.auscultation.wfdb_header import read_header

SOUND = 0.5 * np.sin(2.0 * np.pi * 50.0 * np.arange(12_000) / 2000.0)


def write_wav(path, sound=SOUND, rate=2000, bits=16):
    """By the standard library's writer, which knows nothing of ours."""
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = np.round(np.asarray(sound) * 2.0 ** (bits - 1)).astype("<i4")
    data = b"".join(struct.pack("<i", value)[: bits // 8] for value in whole.ravel())
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1 if whole.ndim == 1 else whole.shape[1])
        file.setsampwidth(bits // 8)
        file.setframerate(rate)
        file.writeframes(data)
    return path


def riff(kind, bits, data, channels=1, rate=4000, extra=b"", before=b""):
    fmt = struct.pack("<HHIIHH", kind, channels, rate, rate * channels * bits // 8, channels * bits // 8, bits) + extra
    body = (
        b"WAVE" + before + b"fmt " + struct.pack("<I", len(fmt)) + fmt + b"data" + struct.pack("<I", len(data)) + data
    )
    return b"RIFF" + struct.pack("<I", len(body)) + body


@pytest.mark.parametrize("bits", [16, 24, 32])
def test_whole_numbers_come_back(tmp_path, bits):
    stereo = np.stack([SOUND, -SOUND], 1)[:500]
    sound, rate = read_wav(write_wav(tmp_path / "a.wav", stereo, 4000, bits))
    assert rate == 4000.0 and sound.shape == (500, 2)
    assert np.abs(sound - stereo).max() <= 2.0 ** -(bits - 1)


def test_other_kinds_of_samples(tmp_path):
    path = tmp_path / "a.wav"
    values = np.array([-1.0, -0.5, 0.0, 0.5])
    path.write_bytes(riff(3, 32, values.astype("<f4").tobytes(), before=b"LIST\x03\x00\x00\x00abc\x00"))
    assert read_wav(path)[0].tolist() == values.tolist()
    path.write_bytes(riff(1, 8, bytes([0, 64, 128, 192])))
    assert read_wav(path)[0].tolist() == values.tolist()
    extensible = struct.pack("<HHIH", 22, 16, 4, 1) + b"\x00\x00\x00\x00\x10\x00\x80\x00\x00\xaa\x00\x38\x9b\x71"
    path.write_bytes(riff(0xFFFE, 16, np.array([-32768, -16384, 0, 16384], "<i2").tobytes(), extra=extensible))
    assert read_wav(path)[0].tolist() == values.tolist()


@pytest.mark.parametrize(
    "content, said",
    [
        (riff(1, 16, bytes(2000))[:-100], "was cut: expected 2000 bytes in its chunk 'data', found 1900"),
        (b"ID3 what a stethoscope's app saves", "expected a WAV file"),
        (riff(1, 16, bytes(2000))[:40], "'data' is missing|data is missing"),
        (riff(1, 12, bytes(12)), "kind 1 of 12 bits"),
        (riff(2, 4, bytes(12), channels=2), "kind 2 of 4 bits"),
        (riff(1, 16, bytes(11)), "no whole number of frames of 2 bytes"),
        (riff(3, 32, np.array([0.0, np.nan], "<f4").tobytes()), "not finite"),
        (riff(1, 16, b"", channels=0), "0 channels"),
    ],
)
def test_damaged_wav_files(tmp_path, content, said):
    (tmp_path / "a.wav").write_bytes(content)
    with pytest.raises(CollectionError, match=said):
        read_wav(tmp_path / "a.wav")


def test_a_missing_wav_file(tmp_path):
    with pytest.raises(CollectionError, match="cannot be read: No such file"):
        read_wav(tmp_path / "a.wav")


def test_header(tmp_path):
    path = tmp_path / "a0001.hea"
    path.write_text(
        "a0001 2 2000/1000(0) 71332\na0001.wav 16+44 1 16 0 0 0 0 PCG\na0001.dat 16 1000 16 0 0 367 0 ECG\n# Abnormal\n"
    )
    header = read_header(path)
    assert (header.record, header.rate, header.samples) == ("a0001", 2000.0, 71332)
    assert header.signals == (("a0001.wav", "PCG"), ("a0001.dat", "ECG")) and header.comments == ("Abnormal",)
    for text, said in (
        ("", "found ''"),
        ("a0001 1 fast 71332\nx 16\n", "'RECORD SIGNALS RATE SAMPLES'"),
        ("a0001 2 2000 71332\na0001.wav 16\n", "expected 2 lines of signals, found 1"),
    ):
        path.write_text(text)
        with pytest.raises(CollectionError, match=said):
            read_header(path)


@pytest.fixture
def cinc(tmp_path):
    for name in ("a0001", "a0002"):
        write_wav(tmp_path / f"training-a/{name}.wav")
        (tmp_path / f"training-a/{name}.hea").write_text(
            f"{name} 1 2000 12000\n{name}.wav 16+44 1 16 0 0 0 0 PCG\n# Normal\n"
        )
    write_wav(tmp_path / "validation/a0001.wav")
    (tmp_path / "training-a/REFERENCE.csv").write_text("a0001,1\na0002,-1\n")
    return tmp_path


def test_cinc2016(cinc):
    first, second = find_cinc2016(cinc)
    assert (first.label, second.label, first.usable, first.structure) == ("abnormal", "normal", None, "heart")
    assert first.path.parent.name == "training-a"
    revised = cinc / "annotations/updated/training-a/REFERENCE_withSQI.csv"
    revised.parent.mkdir(parents=True)
    revised.write_text("a0001,1,0\r\na0002,1,1\r\n")
    first, second = find_cinc2016(cinc)
    assert (first.usable, second.usable, second.label) == (False, True, "abnormal")
    sound, rate = second.read()
    assert rate == 2000.0 and np.abs(sound - SOUND).max() < 1e-4


def test_damaged_cinc2016(cinc):
    write_wav(cinc / "training-a/a0002.wav", SOUND[:5000])
    with pytest.raises(CollectionError, match="expected 12000 samples at 2000 Hz as a0002.hea says, found 5000"):
        find_cinc2016(cinc)[1].read()
    (cinc / "training-a/a0002.hea").unlink()
    with pytest.raises(CollectionError, match="header a0002.hea is missing"):
        find_cinc2016(cinc)
    (cinc / "training-a/a0002.wav").unlink()
    with pytest.raises(CollectionError, match="1 of 2 labelled recordings have no WAV file, the first is a0002"):
        find_cinc2016(cinc)
    for line in ("a0001,2", "a0001", "a0001,1,0,5", "a0001;1"):
        (cinc / "training-a/REFERENCE.csv").write_text(f"{line}\n")
        with pytest.raises(CollectionError, match="line 1: expected RECORD,LABEL"):
            find_cinc2016(cinc)
    (cinc / "training-a/REFERENCE.csv").unlink()
    with pytest.raises(CollectionError, match="found neither"):
        find_cinc2016(cinc)
    with pytest.raises(CollectionError, match="is no folder"):
        find_cinc2016(cinc / "elsewhere")


@pytest.fixture
def circor(tmp_path):
    lines = ["13918 2 4000"]
    for place in ("AV", "MV"):
        name = f"13918_{place}"
        write_wav(tmp_path / f"{name}.wav", SOUND, 4000)
        (tmp_path / f"{name}.hea").write_text(f"{name} 1 4000 12000\n{name}.wav 16+44 1 16 0 0 0 0 {place}\n")
        (tmp_path / f"{name}.tsv").write_text("0.0\t0.5\t0\n0.5\t0.62\t1\n0.62\t0.9\t2\n0.9\t1.0\t3\n1.0\t1.6\t4\n")
        lines.append(f"{place} {name}.hea {name}.wav {name}.tsv")
    lines += ["#Age: Child", "#Murmur: Present", "#Murmur locations: MV", "#Outcome: Abnormal"]
    (tmp_path / "13918.txt").write_text("\n".join(lines) + "\n")
    (tmp_path / "README.txt").write_text("something else")
    return tmp_path


def test_circor(circor):
    av, mv = find_circor(circor)
    assert (av.patient, av.place, av.label, mv.label) == ("13918", "AV", "absent", "present")
    assert av.segments[1] == Segment(0.5, 0.62, "S1") and [s.name for s in av.segments[2:]] == [
        "systole",
        "S2",
        "diastole",
    ]
    assert av.facts["Age"] == "Child"
    assert av.read()[1] == 4000.0


def test_damaged_circor(circor):
    tsv, txt = circor / "13918_AV.tsv", (circor / "13918.txt").read_text()
    tsv.write_text("0.0\t9.5\t1\n")
    with pytest.raises(CollectionError, match=r"annotated up to 9\.50 s, but it lasts 3\.00 s"):
        find_circor(circor)[0].read()
    for text, said in (
        ("0.0\t0.5\n", "expected begin, end, state"),
        ("0.5\t0.1\t1\n", "0 <= begin <= end"),
        ("0.0\tnan\t1\n", "0 <= begin <= end"),
        ("0.0\t0.5\t7\n", "expected a state from 0 to 4, found 7"),
    ):
        tsv.write_text(text)
        with pytest.raises(CollectionError, match=said):
            find_circor(circor)
    tsv.unlink()
    with pytest.raises(CollectionError, match="names 13918_AV.tsv, which is missing"):
        find_circor(circor)
    tsv.write_text("0 1 1\n")
    for old, new, said in (
        ("13918 2 4000", "13919 2 4000", "expected '13918 RECORDINGS RATE'"),
        ("AV 13918_AV", "XV 13918_AV", "with a place of AV"),
        ("13918 2 4000", "13918 3 4000", "found '#Age: Child'"),
    ):
        (circor / "13918.txt").write_text(txt.replace(old, new))
        with pytest.raises(CollectionError, match=said):
            find_circor(circor)
    (circor / "13918.txt").unlink()
    with pytest.raises(CollectionError, match=r"expected PATIENT\.txt"):
        find_circor(circor)


def test_icbhi(tmp_path):
    path = write_wav(tmp_path / "audio_and_txt_files/101_1b1_Al_sc_Meditron.wav", SOUND, 4000, 24)
    text = path.with_suffix(".txt")
    text.write_text("0.036\t0.579\t0\t0\n0.579\t2.45\t1\t0\n2.45\t3.0\t1\t1\n")
    (one,) = find_icbhi(tmp_path)
    assert (one.structure, one.patient, one.place) == ("lung", "101", "Al")
    assert one.facts == {"recording": "1b1", "mode": "sc", "equipment": "Meditron"}
    assert [s.name for s in one.segments] == ["normal", "crackles", "crackles and wheezes"]
    assert np.abs(one.read()[0] - SOUND).max() < 1e-6
    text.write_text("0.036\t0.579\t0\t2\n")
    with pytest.raises(CollectionError, match="crackles and wheezes of 0 or 1"):
        find_icbhi(tmp_path)
    text.write_text("0.036\t0.579\t0\n")
    with pytest.raises(CollectionError, match="line 1: expected begin, end, crackles, wheezes"):
        find_icbhi(tmp_path)
    text.unlink()
    with pytest.raises(CollectionError, match=r"annotations 101_1b1_Al_sc_Meditron\.txt are missing"):
        find_icbhi(tmp_path)
    path.rename(path.with_name("101_1b1_Xx_sc_Meditron.wav"))
    with pytest.raises(CollectionError, match="with a place of Tc, Al"):
        find_icbhi(tmp_path)
    with pytest.raises(CollectionError, match="found none below it"):
        (tmp_path / "empty").mkdir()
        find_icbhi(tmp_path / "empty")
