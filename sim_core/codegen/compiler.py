"""From C text to a shared object, once per text, options, compiler and CPU.

Objects live in ``$REFIT_CACHE`` (else ``$XDG_CACHE_HOME/refit``, else
``~/.cache/refit``) under ``kernels/``. The last 32 bytes of each are the SHA-256
of the rest: a file cut short or damaged is noticed and compiled again, never
loaded. Files appear by atomic rename, and a lock file lets one process compile
while others that want the same object wait for it.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from config.whole_file import whole_file

RUNTIME = Path(__file__).parent / "runtime"

# -O2 without the vectoriser: the text is vector code already. No -ffast-math:
# NaN must stay visible. Contraction to fused multiply-add, no errno and no
# floating-point traps change no value that anyone tests for.
FLAGS = (
    "-std=gnu11 -O2 -march=native -ffp-contract=fast -fno-math-errno -fno-trapping-math "
    "-fno-tree-vectorize -fPIC -shared -fvisibility=hidden -pthread -Wno-psabi "
    "-Wl,-Bsymbolic -Wl,--no-undefined"
).split()


#: files of the cache that this process asked for
USED: set[Path] = set()


class CompileError(RuntimeError):
    """The compiler is there but refused the text."""


def find_compiler() -> str | None:
    """Path of the C compiler, or None.

    ``REFIT_CC`` names one, or ``none`` to do without; otherwise ``CC``, gcc, cc, clang.
    """
    asked = os.environ.get("REFIT_CC")
    if asked == "none":
        return None
    if asked:
        found = shutil.which(asked)
        if not found:
            raise FileNotFoundError(f"REFIT_CC={asked} is no executable on PATH; name a C compiler, or 'none'.")
        return found
    candidates = (os.environ.get("CC", "").split(" ")[0], "gcc", "cc", "clang")
    return next((path for c in candidates if c and (path := shutil.which(c))), None)


@functools.cache
def compiler_version(compiler: str) -> str:
    """What the compiler says of itself; part of every kernel's key."""
    return subprocess.run([compiler, "--version"], capture_output=True, text=True).stdout


@functools.cache
def cpu() -> str:
    """What -march=native depends on: architecture and instruction set flags."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    # platform.processor() starts a process, so it is asked only where /proc/cpuinfo says nothing.
    flags = next((l for l in lines if l.startswith(("flags", "Features"))), None) or platform.processor()
    model = next((l for l in lines if l.startswith("model name")), "")
    return f"{platform.machine()} {model} {flags}"


def natural_lanes(dtype: str) -> int:
    """Scalars in one vector register of this CPU."""
    flags = set(cpu().split())
    doubles = 8 if "avx512f" in flags else 4 if "avx2" in flags else 2
    return doubles * (2 if dtype == "float32" else 1)


def cache_directory() -> Path:
    """Folder of compiled kernels, made if it is missing.

    Raises:
        OSError: it cannot be made; the text says which variable names another.
    """
    chosen = os.environ.get("REFIT_CACHE")
    root = Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "refit"
    path = root / "kernels"
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(
            f"Compiled kernels need a folder that can be written, and {path} cannot be made "
            f"({error.strerror}). Set REFIT_CACHE to one."
        ) from error
    return path


def math_libraries() -> list[str]:
    """libmvec (vector exp, log, pow, tanh) comes with glibc on x86-64."""
    if platform.libc_ver()[0] == "glibc" and platform.machine() == "x86_64":
        return ["-DREFIT_LIBMVEC", "-Wl,--as-needed", "-lmvec", "-lm"]
    return ["-lm"]


def build(
    name: str,
    text: str,
    *,
    compiler: str,
    defines: Mapping[str, object] = {},
    include: Sequence[Path] = (),
    flags: Sequence[str] = FLAGS,
) -> Path:
    """Compile C text to a shared object, or take it from the cache.

    Args:
        name: readable start of the file name.
        text: the whole translation unit; may include headers of ``include``,
            all of which (*.h, *.c) count for the hash.
        compiler: from ``find_compiler``.
        defines: macros.

    Returns:
        Path of the shared object.

    Raises:
        CompileError: with the compiler's first complaints.
    """
    include = [RUNTIME, *map(Path, include)]
    macros = [f"{k}={v}" for k, v in sorted(defines.items())]
    headers = sorted(f for folder in include for f in folder.iterdir() if f.suffix in (".h", ".c"))
    key = [
        text,
        *flags,
        *macros,
        *math_libraries(),
        compiler_version(compiler),
        cpu(),
        *(f.name + f.read_text() for f in headers),
    ]
    command = [compiler, *flags, *(f"-D{m}" for m in macros), *(f"-I{folder}" for folder in include)]
    return cached(name, key, ".so", lambda folder: _compile(name, text, command, folder))


def cached(name: str, key: Sequence[str], suffix: str, make: Callable[[Path], bytes]) -> Path:
    """File of the cache that stands for ``key``, made if it is missing or damaged.

    Args:
        make: called with an empty folder to work in; returns the file's content.
    """
    digest = hashlib.sha256()
    for part in key:
        digest.update(part.encode() + b"\0")
    path = cache_directory() / f"{name}-{digest.hexdigest()[:24]}{suffix}"
    USED.add(path)
    if intact(path):
        return path
    with open(path.with_suffix(".lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not intact(path):
            with tempfile.TemporaryDirectory(dir=path.parent, prefix=".build-") as folder:
                content = make(Path(folder))
            with whole_file(path) as complete:
                complete.write_bytes(content + hashlib.sha256(content).digest())
    return path


def intact(path: Path) -> bool:
    """The file is there, and its last 32 bytes are the digest of the rest."""
    try:
        content = path.read_bytes()
    except OSError:
        return False
    return len(content) > 32 and hashlib.sha256(content[:-32]).digest() == content[-32:]


def _compile(name: str, text: str, command: list[str], folder: Path) -> bytes:
    source, built = folder / "kernels.c", folder / "kernels.so"
    source.write_text(text)
    command = [*command, str(source), "-o", str(built), *math_libraries()]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode:
        complaint = "\n".join(run.stderr.strip().splitlines()[:12])
        raise CompileError(
            f"{command[0]} could not compile {name}:\n{complaint}\n"
            "Set REFIT_CC to another compiler, or REFIT_CC=none to do without (slower)."
        )
    return built.read_bytes()
