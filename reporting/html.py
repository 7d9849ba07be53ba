"""Self-contained HTML reports: one file, readable offline, with figures, tables, checks and the data.

report = Report("Panda with an unknown payload", "refit on and off, seed 1")
report.numbers({"payload mass": "1.98 kg", "control rate": "50 Hz"})
report.section("Tracking", "The payload appears at t = 5 s.")
report.figure(fig, "Distance of the hand from its path.")
report.table(["parameter", "estimate", "truth"], rows)
report.checks(result)
report.write(run / "report.html")
"""

from __future__ import annotations

import base64
import io
import json
import os
import re
import wave
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
from markupsafe import Markup

from reporting.checks import Result, _plain, number_text, unit_text, write_text

#: beyond this a vector figure is slower to show than its picture
_MAX_SVG_BYTES = 600_000


class Report:
    """A report grown from top to bottom; every method returns the report, so that calls chain.

    Texts are plain: blank lines separate paragraphs, `back-quotes` mark code, everything else is
    escaped. Whatever comes before the first `section` stands above the sections.
    """

    def __init__(self, title: str, subtitle: str = "") -> None:
        self.title, self.subtitle = title, subtitle
        self._sections: list[dict[str, Any]] = [{"title": "", "blocks": []}]
        self._data: dict[str, Any] = {}
        self._facts: list[tuple[str, str]] = []

    def section(self, title: str, text: str = "") -> Report:
        """Begin a section; later blocks belong to it."""
        self._sections.append({"title": title, "blocks": []})
        return self.text(text) if text else self

    def text(self, text: str) -> Report:
        """Paragraphs."""
        return self._add("text", html=_paragraphs(text))

    def warning(self, text: str) -> Report:
        """A paragraph that must not be overlooked (a bound reached, a missed target)."""
        return self._add("warning", html=_paragraphs(text))

    def numbers(self, values: Mapping[str, Any]) -> Report:
        """The few numbers a reader looks for first, as large cards."""
        return self._add("numbers", values=[(label, number_text(value)) for label, value in values.items()])

    def figure(self, fig: Any, caption: str = "") -> Report:
        """Embed a matplotlib figure, as SVG where that stays small, else as PNG."""
        return self._add("figure", uri=_figure_uri(fig), caption=_inline(caption), alt=caption or self.title)

    def image(self, picture: bytes | str | os.PathLike[str], caption: str = "") -> Report:
        """Embed a picture (PNG, or a WebP that may move), given as bytes or as a file."""
        content = picture if isinstance(picture, bytes) else Path(picture).read_bytes()
        kind = "image/webp" if content[:4] == b"RIFF" and content[8:12] == b"WEBP" else "image/png"
        return self._add("figure", uri=_data_uri(kind, content), caption=_inline(caption), alt=caption)

    def audio(self, sound: np.ndarray, rate: int, caption: str = "") -> Report:
        """A player of a sound (n,), full scale at 1, `rate` samples per second [Hz]; stored with 16 bits.

        Raises:
            ValueError: another shape, or not finite.
        """
        sound = np.asarray(sound, float)
        if sound.ndim != 1 or not len(sound) or not np.isfinite(sound).all():
            raise ValueError(f"a sound is finite and of shape (n,) with n > 0, not {sound.shape}.")
        buffer = io.BytesIO()
        with wave.open(buffer, "wb") as file:
            file.setparams((1, 2, int(rate), len(sound), "NONE", ""))
            file.writeframes((32767.0 * np.clip(sound, -1.0, 1.0)).astype("<i2").tobytes())
        return self._add("audio", uri=_data_uri("audio/wav", buffer.getvalue()), caption=_inline(caption))

    def table(self, headers: Sequence[str], rows: Iterable[Sequence[Any]], caption: str = "") -> Report:
        """A table; numbers are shown in four digits and set to the right.

        Raises:
            ValueError: a row is not as long as `headers`.
        """
        cells = []
        for index, row in enumerate(rows):
            if len(row) != len(headers):
                raise ValueError(
                    f"table row {index} has {len(row)} cells, expected {len(headers)} ({', '.join(headers)})."
                )
            shown = [unit_text(cell) if header == "unit" else cell for header, cell in zip(headers, row)]
            cells.append([(number_text(cell), _is_numeric(cell)) for cell in shown])
        # A column's header stands over its numbers.
        numeric = [bool(cells) and all(row[column][1] for row in cells) for column in range(len(headers))]
        return self._add("table", headers=list(zip(headers, numeric)), rows=cells, caption=_inline(caption))

    def checks(self, result: Result) -> Report:
        """The result's checks with their verdicts; its document is embedded as data, machine and versions
        appear at the foot."""
        rows = [
            {
                "passed": check.passed,
                "name": check.name,
                "value": number_text(check.value),
                "target": f"{check.relation} {number_text(check.target)}",
                "unit": unit_text(check.unit),
                "source": check.source,
            }
            for check in result.checks
        ]
        document = result.to_dict()
        self.data(f"result-{result.name}", document)
        self._facts = [*document["machine"].items(), *document["versions"].items()]
        return self._add("checks", rows=rows, verdict=result.verdict, passed=result.passed)

    def data(self, name: str, document: Any) -> Report:
        """Embed `document` as JSON in the file (a script element with id `name`), for programs."""
        self._data[re.sub(r"[^A-Za-z0-9_-]+", "-", name)] = _plain(document)
        return self

    def html(self) -> str:
        """The whole page."""
        environment = jinja2.Environment(
            loader=jinja2.FileSystemLoader(Path(__file__).resolve().parent),
            autoescape=True,
            trim_blocks=True,
            lstrip_blocks=True,
            undefined=jinja2.StrictUndefined,
        )
        return environment.get_template("report.html.j2").render(
            title=self.title,
            subtitle=self.subtitle,
            sections=[section for section in self._sections if section["blocks"] or section["title"]],
            data={name: _script_json(document) for name, document in self._data.items()},
            facts=[(key, value) for key, value in self._facts if value not in (None, "")],
        )

    def write(self, path: str | os.PathLike[str]) -> Path:
        """Write the page to `path`, whole or not at all. Returns the path."""
        return write_text(path, self.html())

    def _add(self, kind: str, **content: Any) -> Report:
        self._sections[-1]["blocks"].append({"kind": kind, **content})
        return self


def _figure_uri(fig: Any) -> str:
    buffer = io.BytesIO()
    fig.savefig(buffer, format="svg", metadata={"Date": None})
    if buffer.tell() <= _MAX_SVG_BYTES:
        return _data_uri("image/svg+xml", buffer.getvalue())
    fig.set_layout_engine("none")  # all is where the first form put it
    buffer = io.BytesIO()
    fig.savefig(buffer, format="png", dpi=160)
    return _data_uri("image/png", buffer.getvalue())


def _data_uri(mime: str, content: bytes) -> str:
    return f"data:{mime};base64,{base64.b64encode(content).decode('ascii')}"


def _inline(text: str) -> Markup:
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(jinja2.utils.markupsafe.escape(text))))


def _paragraphs(text: str) -> Markup:
    paragraphs = [part.strip() for part in re.split(r"\n\s*\n", text) if part.strip()]
    return Markup("\n").join(Markup("<p>{}</p>").format(_inline(part)) for part in paragraphs)


def _script_json(document: Any) -> Markup:
    # "<" is written as an escape so that no text can close the script element.
    return Markup(json.dumps(document, allow_nan=False).replace("<", "\\u003c"))


def _is_numeric(cell: Any) -> bool:
    if hasattr(cell, "tolist"):
        cell = cell.tolist()
    return isinstance(cell, (int, float)) and not isinstance(cell, bool)
