"""Checks decide exit codes: what passes, what fails, and what the JSON file says."""

import io
import json
import math

import numpy as np
import pytest
from rich.console import Console

from reporting import Check, Report, Result
from reporting.checks import number_text, unit_text, write_json


@pytest.mark.parametrize(
    ("value", "relation", "target", "passed"),
    [
        (1.0, "<=", 1.0, True),
        (1.0, "<", 1.0, False),
        (2, ">=", 2, True),
        (2, ">", 2, False),
        (8, "==", 8, True),
        ("rank", "==", "rank", True),
        (True, "==", True, True),
        (0.5, "in", (0.0, 1.0), True),
        (1.0, "in", (0.0, 1.0), True),
        (1.01, "in", (0.0, 1.0), False),
        (1, "in", {1, 5, 9}, True),
        (2, "in", [1, 5, 9], False),
        ("b", "in", ("a", "b"), True),
        (np.float32(0.25), "<=", np.float64(0.25), True),
        (np.int64(3), ">", 2, True),
        (math.inf, ">", 1.0, True),
    ],
)
def test_relation(value, relation, target, passed):
    assert Check("x", value, target, relation).passed is passed


@pytest.mark.parametrize("relation", ["<=", ">=", "<", ">"])
@pytest.mark.parametrize("value", [math.nan, None, "1", np.float64("nan"), True])
def test_what_is_not_a_measurement_never_passes(value, relation):
    assert not Check("x", value, 1.0, relation).passed


def test_nan_is_not_equal_to_nan_nor_inside_an_interval():
    assert not Check("x", math.nan, math.nan, "==").passed
    assert not Check("x", math.nan, (-1.0, 1.0), "in").passed


@pytest.mark.parametrize(
    ("relation", "target", "said"),
    [("=<", 1.0, "'=<' is unknown"), ("in", 3.0, "interval"), ("in", "abc", "interval"), ("<", "1", "number")],
)
def test_a_senseless_check_is_refused_with_its_name(relation, target, said):
    with pytest.raises(ValueError, match=said) as error:
        Check("payload mass", 1.0, target, relation)
    assert "payload mass" in str(error.value)


def test_a_run_passes_only_if_it_checked_something_and_all_of_it_passed():
    result = Result("x")
    assert not result.passed
    result.check("a", 1, 2, "<")
    assert result.passed and result.exit_code == 0
    result.check("b", 3, 2, "<")
    assert not result.passed and result.exit_code == 1
    assert result.verdict == "1 of 2 targets met; missed: b."


def test_json_document(tmp_path):
    result = Result("identify", seed=3, size="quick")
    result.check("mass", np.float64(2.0), (1.9, 2.1), "in", unit="kg", source="own target")
    result.check("lost", math.nan, 1.0, "<=")
    result.detail("curve", np.array([1.0, math.inf]))
    document = json.loads(result.to_json(tmp_path / "deep" / "out.json").read_text())
    assert list(document)[:7] == ["name", "passed", "seed", "size", "machine", "versions", "checks"]
    assert document["checks"][0] == {
        "name": "mass", "value": 2.0, "target": [1.9, 2.1], "relation": "in",
        "unit": "kg", "source": "own target", "passed": True,
    }  # fmt: skip
    assert document["checks"][1]["value"] is None and document["checks"][1]["passed"] is False
    assert document["details"]["curve"] == [1.0, None]
    assert document["machine"]["cores"] >= 1 and document["versions"]["python"].startswith("3.")


def test_json_names_neither_host_nor_paths(tmp_path):
    import platform

    text = Result("x").to_json(tmp_path / "out.json").read_text()
    assert platform.node() not in json.loads(text)["machine"].values()
    assert str(tmp_path) not in text and "/home" not in text and "/root" not in text


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    path = write_json(tmp_path / "out.json", {"a": 1})

    class Unprintable:
        def __str__(self):
            raise RuntimeError("no text")

    with pytest.raises(RuntimeError):
        write_json(path, {"a": Unprintable()})
    assert json.loads(path.read_text()) == {"a": 1}
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.json"]


def test_table_shows_verdicts_and_literal_brackets():
    result = Result("x", seed=1, size="quick")
    result.check("inside [m]", 5, (1, 3), "in")
    console = Console(width=120, record=True, file=open("/dev/null", "w"))
    result.print(console)
    text = console.export_text()
    assert "MISSED" in text and "in [1, 3]" in text and "x, quick, seed 1" in text and "inside [m]" in text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.123456, "0.1235"), (123456.7, "123457"), (3, "3"), (math.nan, "nan"), (None, "–"), (True, "True"),
     ((1.0, 2.5), "[1, 2.5]"), (np.array([1, 2]), "[1, 2]"), (1.5e-7, "1.5e-07")],
)  # fmt: skip
def test_number_text(value, text):
    assert number_text(value) == text


def test_a_minus_zero_and_the_unit_of_a_ratio_are_not_shown():
    assert number_text(-0.0) == number_text(np.float64(-0.0)) == "0" and number_text([-0.0, 1.0]) == "[0, 1]"
    assert unit_text("1") == "" and unit_text("kg") == "kg"
    result = Result("ratios")
    result.check("a share of something", -0.0, 1.0, "<=", unit="1")
    console = Console(record=True, width=80, file=io.StringIO())
    result.print(console)
    assert console.export_text().split("<= 1")[1].split("\n")[0].strip() == ""
    page = Report("ratios").checks(result).table(["name", "unit"], [["gain", "1"], ["mass", "kg"]]).html()
    assert ">1</td>" not in page and ">kg</td>" in page
    assert result.to_dict()["checks"][0]["unit"] == "1"  # programs are told
