"""Kernels that a demonstration needs are made once, and what is missing or changed is made again."""

import pytest

from cli.demo import kernels
from cli.demo.kernels import load_kernels
from sim_core.codegen import compiler


@pytest.fixture
def built(monkeypatch, tmp_path):
    """The folder of the cache and the calls of the builder, which makes two files."""
    monkeypatch.setenv("REFIT_CACHE", str(tmp_path))
    calls = []

    def build(*options):
        calls.append(options)
        for name in ("dynamics", "sums"):
            compiler.cached(name, [name], ".so", lambda folder: b"compiled")

    monkeypatch.setattr(kernels, "_build", build)
    return tmp_path / "kernels", calls


def test_what_is_there_is_not_built_again(built):
    _, calls = built
    assert load_kernels("cartpole", "robust") and not load_kernels("cartpole", "robust")
    assert calls == [("cartpole", "robust", "")]
    assert load_kernels("cartpole", "literal") and load_kernels("cartpole", "robust", free="*.friction")
    assert len(calls) == 3


@pytest.mark.parametrize("harm", ["missing", "damaged", "memory"])
def test_what_is_missing_or_damaged_is_built_again(built, harm):
    folder, calls = built
    load_kernels("cartpole", "robust")
    library, memory = next(folder.glob("sums-*.so")), next(folder.glob("needed-*.json"))
    if harm == "missing":
        library.unlink()
    elif harm == "damaged":
        library.write_bytes(library.read_bytes()[:-1])
    else:
        memory.write_text('{"half')
    assert load_kernels("cartpole", "robust") and len(calls) == 2
    assert compiler.intact(library) and not load_kernels("cartpole", "robust")


def test_another_program_needs_other_kernels(built, monkeypatch, tmp_path):
    _, calls = built
    source = tmp_path / "program" / "sim_core"
    source.mkdir(parents=True)
    monkeypatch.setattr(kernels, "ROOT", source.parent)
    (source / "equations.py").write_text("a = 1")
    load_kernels("cartpole", "robust")
    (source / "equations.py").write_text("a = 2")
    assert load_kernels("cartpole", "robust") and len(calls) == 2
    (source / "equations.py").write_text("a = 1")
    assert not load_kernels("cartpole", "robust")


def test_what_was_used_before_is_still_known(built):
    compiler.USED.add(before := built[0] / "earlier.so")
    load_kernels("cartpole", "robust")
    assert before in compiler.USED
    compiler.USED.discard(before)
