"""A function's text is printed once, is the one that would be printed, and is another for whatever the text depends on."""

import casadi as ca
import pytest

from sim_core.codegen import emitted as module
from sim_core.codegen.emitted import WORTH_KEEPING, emitted
from sim_core.codegen.emitter import emit


@pytest.fixture
def printed(tmp_path, monkeypatch):
    """Names of the functions printed since, in a cache of its own."""
    names = []
    monkeypatch.setenv("REFIT_CACHE", str(tmp_path))
    monkeypatch.setattr(module, "emit", lambda *args, **words: (names.append(args[0]), emit(*args, **words))[1])
    return names


def function(last=1.0, name="f"):
    x = ca.SX.sym("x", 2)
    y = x
    for k in range(WORTH_KEEPING):
        y = ca.sin(y) + 0.1 * k
    return ca.Function(name, [x], [last * y])


def test_the_second_time_it_is_read(printed):
    first, again = emitted("f", function()), emitted("f", function())
    assert first == again == emit("f", function()) and printed == ["f"]


def test_other_numbers_names_and_forms_are_other_texts(printed):
    texts = [
        emitted("f", function()),
        emitted("f", function(1.0 + 2.0**-50)),
        emitted("g", function()),
        emitted("f", function(), scalar=True),
    ]
    assert len(set(texts)) == len(printed) == 4


def test_another_printer_prints_anew(printed, monkeypatch):
    emitted("f", function())
    monkeypatch.setattr(module, "_printer", lambda: "another")
    emitted("f", function())
    assert len(printed) == 2


def test_a_damaged_text_is_printed_anew(printed, tmp_path):
    text = emitted("f", function())
    (path,) = (tmp_path / "kernels").glob("emitted_f-*.c")
    path.write_bytes(path.read_bytes()[:-1])
    assert emitted("f", function()) == text and len(printed) == 2


def test_short_ones_are_not_kept(printed, tmp_path):
    x = ca.SX.sym("x")
    short = ca.Function("f", [x], [x * x])
    assert emitted("f", short) == emitted("f", short) == emit("f", short)
    assert len(printed) == 2 and not list((tmp_path / "kernels").glob("*.c"))
