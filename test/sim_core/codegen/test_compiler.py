"""Cache of compiled kernels: reuse, damage, concurrency, options; hand-written C on top of emitted functions."""

import ctypes
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import casadi as ca
import numpy as np
import pytest

from sim_core.codegen import CompileError, NoCompilerWarning, compile_library, compiler, library


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("REFIT_CACHE", str(tmp_path))
    return tmp_path / "kernels"


@pytest.fixture
def compilations(monkeypatch):
    """What was compiled so far."""
    done, real = [], compiler._compile
    monkeypatch.setattr(compiler, "_compile", lambda *a: (done.append(a), real(*a))[1])
    return done


def square(factor=1.0):
    x = ca.SX.sym("x", 2)
    return ca.Function("f", [x], [factor * x * x])


def value(lib):
    return lib.call("f", np.array([2.0, 3.0]))[0].tolist()


def test_the_second_time_nothing_is_compiled(cache, compilations):
    assert value(compile_library("cached", {"f": square()})) == [4, 9]
    assert value(compile_library("cached", {"f": square()})) == [4, 9]
    assert len(compilations) == 1


def test_text_options_and_cpu_make_different_objects(cache, compilations, monkeypatch):
    compile_library("cached", {"f": square()})
    compile_library("cached", {"f": square(2.0)})
    compile_library("cached", {"f": square()}, lanes=2)
    compile_library("cached", {"f": square()}, dtype="float32")
    compile_library("cached", {"f": square()}, flags=["-O1"])
    monkeypatch.setattr(compiler, "cpu", lambda: "another machine avx2")
    compile_library("cached", {"f": square()}, lanes=2)
    assert len(compilations) == len(list(cache.glob("*.so"))) == 6


@pytest.mark.parametrize("damage", ["cut", "empty", "flipped", "garbage"])
def test_a_damaged_object_is_compiled_again_and_never_loaded(cache, compilations, damage):
    path = compile_library("damaged", {"f": square()}).path
    content = path.read_bytes()
    path.unlink()  # a new file: the one this process has loaded must stay as it is
    path.write_bytes(
        {
            "cut": content[: len(content) // 2],
            "empty": b"",
            "flipped": content[:4000] + bytes([content[4000] ^ 1]) + content[4001:],
            "garbage": b"\x7fELF" + b"\0" * 5000,
        }[damage]
    )
    assert value(compile_library("damaged", {"f": square()})) == [4, 9]
    assert len(compilations) == 2
    assert compiler.intact(path)


def test_many_at_once_compile_once_and_leave_no_rubbish(cache, compilations):
    with ThreadPoolExecutor(6) as pool:
        values = list(pool.map(lambda _: value(compile_library("crowd", {"f": square()})), range(6)))
    assert values == [[4, 9]] * 6
    assert len(compilations) == 1
    assert sorted(f.suffix for f in cache.iterdir()) == [".lock", ".so"]


def test_other_processes_find_it(cache, compilations):
    path = compile_library("shared", {"f": square()}).path
    script = (
        "import casadi as ca; from sim_core.codegen import compile_library, compiler\n"
        "compiler._compile = None\n"
        "x = ca.SX.sym('x', 2); print(compile_library('shared', {'f': ca.Function('f', [x], [1.0 * x * x])}).path)"
    )
    root = Path(__file__).resolve().parents[3]
    found = subprocess.run([sys.executable, "-c", script], cwd=root, capture_output=True, text=True, check=True)
    assert found.stdout.strip() == str(path)


def test_hand_written_code_calls_emitted_functions_under_its_own_prefix(cache, tmp_path):
    source = tmp_path / "twice.c"
    source.write_text(
        "int EXPORT(twice)(const S *x, S *y) {\n"
        "  S once[f_OUT0_SIZE];\n"
        "  f((const S *[]){x}, (S *[]){once}, NULL);\n"
        "  f((const S *[]){once}, (S *[]){y}, NULL);\n"
        "  return TIMES;\n"
        "}\n"
    )
    lib = compile_library("hand", {"f": square()}, [source], lanes=1, defines={"TIMES": 2})
    x, y = np.array([2.0, 3.0]), np.empty(2)
    twice = lib.symbol("twice", [ctypes.c_void_p, ctypes.c_void_p])
    assert twice(library.pointer(x), library.pointer(y)) == 2
    assert y.tolist() == [16, 81]
    exported = subprocess.run(["nm", "-D", "--defined-only", lib.path], capture_output=True, text=True).stdout
    assert all(line.split()[-1].startswith("hand_") for line in exported.splitlines())
    # a source that changes is compiled again
    source.write_text(source.read_text().replace("TIMES;", "TIMES + 1;"))
    lib = compile_library("hand", {"f": square()}, [source], lanes=1, defines={"TIMES": 2})
    assert lib.symbol("twice", [ctypes.c_void_p, ctypes.c_void_p])(library.pointer(x), library.pointer(y)) == 3


def test_a_refused_text_shows_the_compilers_words(cache, tmp_path):
    (tmp_path / "bad.c").write_text("int oops(void) { return undeclared_thing; }\n")
    with pytest.raises(CompileError, match="undeclared_thing(.|\n)*REFIT_CC"):
        compile_library("bad", {"f": square()}, [tmp_path / "bad.c"])
    assert not list(cache.glob("*.so"))


def test_a_missing_compiler_is_said_once(monkeypatch):
    monkeypatch.setenv("REFIT_CC", "none")
    library._warn_once.cache_clear()
    with pytest.warns(NoCompilerWarning, match="Install gcc or clang"):
        first = compile_library("nocc", {"f": square()})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compile_library("nocc", {"f": square()})
    assert not first.compiled and value(first) == [4, 9]


def test_a_compiler_that_is_not_there_is_an_error(monkeypatch):
    monkeypatch.setenv("REFIT_CC", "no-such-compiler")
    with pytest.raises(FileNotFoundError, match="REFIT_CC=no-such-compiler"):
        compile_library("nocc", {"f": square()})


def test_unusable_requests_are_refused():
    for wrong, words in [({"lanes": 3}, "lanes"), ({"dtype": "float16"}, "dtype"), ({"scalar": ["g"]}, "scalar")]:
        with pytest.raises(ValueError, match=words):
            compile_library("wrong", {"f": square()}, **wrong)
    with pytest.raises(ValueError, match="not a C identifier"):
        compile_library("two words", {"f": square()})


def test_a_cache_that_cannot_be_made_is_named(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("REFIT_CACHE", str(tmp_path / "file"))
    with pytest.raises(OSError, match="REFIT_CACHE"):
        compile_library("nowhere", {"f": square()})
