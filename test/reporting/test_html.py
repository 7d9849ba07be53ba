"""A report is one well-formed, self-contained file that no text can break."""

import base64
import io
import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from scipy.io import wavfile

from reporting import Report, Result, figure

VOID = {"meta", "img", "br", "link", "input", "hr"}


class Page(HTMLParser):
    """Checks nesting and collects elements, visible text and embedded JSON."""

    def __init__(self, text):
        super().__init__()
        self.open, self.elements, self.text, self.scripts = [], [], "", {}
        self.feed(text)
        self.close()
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-1:]}"
        self.open.pop()

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.scripts[self.elements[-1][1]["id"]] = json.loads(data)
        elif self.open and self.open[-1] != "style":
            self.text += data

    def tags(self, name):
        return [attributes for tag, attributes in self.elements if tag == name]


def full_report():
    fig, axes = figure(2, 1, sharex=True)
    axes[0].plot(np.linspace(0, 1), np.linspace(0, 1) ** 2)
    result = Result("demo", seed=1)
    result.check("mass", 2.0, 2.1, "<=", "kg")
    result.check("rmse", 0.9, 0.5, "<=")
    return (
        Report("Panda & payload <2 kg>", "seed 1")
        .numbers({"mass": 1.98, "rate": "50 Hz"})
        .section("Tracking", "First.\n\nSecond with `q < 1`.")
        .figure(fig, "Distance <m>")
        .section("Parameters")
        .table(["name", "value"], [["hand.mass", 1.23456], ["<b>", 2]], "All of them.")
        .warning("joint4.damping is at its upper bound.")
        .section("Targets")
        .checks(result)
        .data("extra", {"text": "</script><script>alert(1)</script>", "nan": float("nan")})
    )


def test_page_is_well_formed_and_says_what_was_put_in():
    page = Page(full_report().html())
    for text in ("Panda & payload <2 kg>", "First.", "Second with", "q < 1", "Distance <m>", "1.235", "<b>",
                 "upper bound", "1 of 2 targets met; missed: rmse."):  # fmt: skip
        assert text in page.text
    assert page.text.count("met") >= 2 and "missed" in page.text


def test_page_loads_nothing_from_elsewhere():
    html = full_report().html()
    page = Page(html)
    for image in page.tags("img"):
        assert image["src"].startswith("data:image/")
    assert not page.tags("link") and 'src="http' not in html and "url(" not in html
    assert all("src" not in attributes for attributes in page.tags("script"))


def test_data_comes_back_and_cannot_close_its_element():
    page = Page(full_report().html())
    assert page.scripts["extra"] == {"text": "</script><script>alert(1)</script>", "nan": None}
    assert page.scripts["result-demo"]["checks"][0]["name"] == "mass"
    assert len(page.tags("script")) == 2


def test_links_of_the_contents_lead_to_the_sections():
    html = full_report().html()
    page = Page(html)
    targets = {attributes["href"][1:]: None for attributes in page.tags("a")}
    headings = re.findall(r'<h2 id="(s\d+)">([^<]+)</h2>', html)
    assert list(targets) == [identity for identity, _ in headings]
    assert [title for _, title in headings] == ["Tracking", "Parameters", "Targets"]


def test_large_figures_become_pictures():
    fig, axes = figure()
    generator = np.random.default_rng(0)
    axes.scatter(generator.random(20000), generator.random(20000))
    html = Report("x").figure(fig).html()
    assert "data:image/png" in html and "data:image/svg" not in html


def test_same_content_same_bytes():
    def page():
        fig, axes = figure()
        axes.plot([0, 1], [0, 1])
        return Report("x").figure(fig).html()

    assert page() == page()


def test_a_sound_is_heard_as_it_was():
    sound = 0.5 * np.sin(np.linspace(0.0, 100.0, 8000))
    page = Page(Report("x").audio(np.append(sound, [1.5, -1.5]), 4000, "A heart.").html())
    (player,) = page.tags("audio")
    kind, content = player["src"].split(",")
    assert kind == "data:audio/wav;base64" and "A heart." in page.text
    rate, heard = wavfile.read(io.BytesIO(base64.b64decode(content)))
    assert rate == 4000 and heard.dtype == np.int16
    np.testing.assert_allclose(heard[:-2] / 32767.0, sound, atol=1.0 / 32767.0)
    assert heard[-2:].tolist() == [32767, -32767], "what is too loud is clipped, and does not wrap"


@pytest.mark.parametrize("wrong", [np.zeros((2, 3)), np.zeros(0), np.array([np.nan])])
def test_what_is_no_sound_is_refused(wrong):
    with pytest.raises(ValueError, match="a sound is finite and of shape"):
        Report("x").audio(wrong, 4000)


def test_row_of_wrong_length_is_refused():
    with pytest.raises(ValueError, match=r"row 1 has 1 cells, expected 2 \(a, b\)"):
        Report("x").table(["a", "b"], [[1, 2], [3]])


def test_write_is_whole_or_not_at_all(tmp_path):
    path = full_report().write(tmp_path / "new" / "report.html")
    Page(path.read_text())
    assert [entry.name for entry in path.parent.iterdir()] == ["report.html"]
