"""What people copy from the pages: command lines and blocks of Python, each with its page and line."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["PAGES", "ROOT", "Block", "commands", "lines", "name_of", "python_blocks"]

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
#: lines of fenced blocks without a language or of a shell, lines indented as code, and code between words
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"^    (?!\s)(\S.*)$", re.MULTILINE)
INLINE = re.compile(r"`([^`\n]+)`")
PYTHON = re.compile(r"(?:^<!-- (\w+): (.*?) -->\n)?^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """Python on a page.

    Attributes:
        line: of its first line. note: kind and text of the comment above it, `<!-- given: ... -->` or `<!-- elsewhere: ... -->`.
    """

    page: Path
    line: int
    text: str
    note: tuple[str, str] | None


def name_of(page: Path) -> str:
    """A page's path in the project."""
    return str(page.relative_to(ROOT))


def lines(page: Path, program: str) -> Iterator[str]:
    """Command lines that begin with a program, continued lines joined."""
    text = page.read_text(encoding="utf-8")
    shown = [body for language, body in FENCE.findall(text) if language in ("", "sh", "bash", "console")]
    rest = FENCE.sub("", text)
    found = [line for body in shown for line in body.replace("\\\n", " ").splitlines()]
    found += INDENTED.findall(rest.replace("\\\n", " ")) + INLINE.findall(rest)
    for line in found:
        line = line.strip().removeprefix("$ ")
        if re.match(rf"(?:[A-Z_]+=\S+ )*{re.escape(program)}(?: |$)", line):
            yield line


def commands(text: str) -> list[list[str]]:
    """The commands of a shell's line as lists of words, without comments and what they are told of the environment."""
    reader = shlex.shlex(text, posix=True, punctuation_chars="|&;<>")
    reader.whitespace_split = True
    found, here = [], []
    for word in [*reader, "&&"]:
        if set(word) <= set("|&;<>"):
            if here:
                found.append(here)
            here = []
        elif here or not re.fullmatch(r"[A-Z_]+=.*", word):
            here.append(word)
    return found


def python_blocks(page: Path) -> list[Block]:
    """The blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(page, text.count("\n", 0, match.start(3)) + 1, match[3], (match[1], match[2]) if match[1] else None)
        for match in PYTHON.finditer(text)
    ]
