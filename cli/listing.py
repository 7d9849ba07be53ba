"""What `--list` prints: names, and a sentence about each."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from rich.console import Console
from rich.table import Table


def show_lines(lines: Mapping[str, str], console: Console | None = None) -> None:
    """Print `lines`: name -> one sentence."""
    table = Table(box=None, show_header=False, pad_edge=False)
    for name, line in lines.items():
        table.add_row(f"[bold]{name}[/]", line)
    (console or Console()).print(table)


def first_line(module: ast.Module) -> str:
    """The first line of a module's docstring; "" without one."""
    return (ast.get_docstring(module) or "").strip().partition("\n")[0]
