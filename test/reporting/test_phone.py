"""A report on a phone: nothing but a wide table asks for sideways scrolling, and that within its own box."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))  # for what all tests share

pytest.importorskip("websockets", reason="the tier 'view' is not installed: ./refit setup view")

from page_watcher import CHROMIUM, Chromium

from reporting import Report, Result, figure

WIDTH = 375
#: what stands beyond the right edge, and is not in a box of its own
BEYOND = (
    "[...document.querySelectorAll('main *')].filter(e => e.getBoundingClientRect().right > innerWidth + 1 "
    "&& !e.closest('.scroll')).map(e => e.tagName + ' ' + e.textContent.slice(0, 60))"
)


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt-get install chromium")
def test_a_report_fits_a_phone(tmp_path):
    result = Result("demo", seed=1, size="quick")
    result.check("tracking RMSE after the change, with refit over without", 0.2345, 0.5, "<=", "1", "own target " * 4)
    page = Report("An unusually_long_name_of_a_robot_" * 3, "/a/path/" + "of_many_letters_without_a_break" * 6)
    page.numbers({"tracking RMSE after, without refit [mm]": 1.979, "re-learnt after [s]": 0.538, "particles": 100})
    page.warning("Look at " + "x" * 200).text("`" + "code_" * 60 + "`").checks(result)
    page.section("Table").table([f"column {k}" for k in range(14)], [[1.2345e-5] * 14])
    fig, axes = figure(1, 1, size=(8.4, 3.0))
    axes.plot([0, 1])
    page.figure(fig, "Caption " * 30)
    path = page.write(tmp_path / "report.html")
    with Chromium(f"file://{path}", tmp_path / "browser") as browser:
        browser.resize(WIDTH, 800)
        assert browser.evaluate(BEYOND) == []
        assert browser.evaluate("document.scrollingElement.scrollWidth") == WIDTH
        # The wide table is there, and can be scrolled.
        wide = "Math.max(...[...document.querySelectorAll('.scroll')].map(e => e.scrollWidth - e.clientWidth))"
        assert browser.evaluate(wide) > 300
