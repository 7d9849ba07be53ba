"""Every node and device by its own diagnostics: how it is, in its own words, and whether it still speaks."""

from __future__ import annotations

import html
from collections import Counter
from typing import Any

from nodes.view.stage.layer import Keep, Layer, Want
from nodes.view.stage.stage import Stage

__all__ = ["DevicesLayer"]

LEVELS = {0: ("OK", "#15803d"), 1: ("WARN", "#b45309"), 2: ("ERROR", "#b91c1c"), 3: ("STALE", "#6b7280")}
SILENT = 3
#: messages that the most talkative one sends while a silent one is still believed
PATIENCE = 5


class DevicesLayer(Layer):
    """See the module's docstring."""

    wants = (Want("diagnostics", "diagnostic_msgs/msg/DiagnosticArray", Keep.EVERY),)

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        with stage.tab("Devices"):
            self._table = stage.gui.add_html(_table([]))
        self.forget()

    def take(self, topic: str, message: Any, time: float) -> None:
        for status in message.status:
            level = status.level if isinstance(status.level, int) else int.from_bytes(bytes(status.level), "little")
            self._beats[status.name] += 1
            self._heard[status.name] = level, status.message, max(self._beats.values())
        self._changed = True

    def refresh(self) -> None:
        if not self._changed:
            return
        self._changed = False
        newest = max(self._beats.values(), default=0)
        rows = []
        for name, (level, text, beat) in sorted(self._heard.items()):
            silent = newest - beat > PATIENCE
            rows.append((name, SILENT if silent else level, "has fallen silent" if silent else text))
        self._table.content = _table(rows)

    def forget(self) -> None:
        # Clocks differ between senders, so silence is counted in messages: each sends one a second.
        self._beats: Counter[str] = Counter()
        self._heard: dict[str, tuple[int, str, int]] = {}
        self._changed = False


def _table(rows: list[tuple[str, int, str]]) -> str:
    if not rows:
        return '<div style="font-size:13px;margin:6px 12px;color:#6b7280">No diagnostics have come yet.</div>'
    body = ""
    for name, level, text in rows:
        word, colour = LEVELS.get(level, LEVELS[SILENT])
        body += (
            f'<tr><td style="color:{colour};font-weight:700">{word}</td><td>{html.escape(name)}</td>'
            f'<td style="color:#374151">{html.escape(text)}</td></tr>'
        )
    return f'<table style="font-size:12px;margin:6px 12px;border-spacing:8px 3px">{body}</table>'
