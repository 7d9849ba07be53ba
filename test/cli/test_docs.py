"""`refit docs`: a page for every public module, whose links lead somewhere."""

import re
import sys
from urllib.parse import unquote

import pytest

from cli.docs import PACKAGES, public_modules, write_pages
from cli.main import main

pytest.importorskip("pdoc")


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("api")
    told = []
    count, left_out = write_pages(PACKAGES, folder, told.append)
    assert left_out == {} and count == len(told) > 300
    return folder


def test_every_public_module_has_a_page_that_the_first_one_names(pages):
    index = (pages / "index.html").read_text()
    for package in PACKAGES:
        for name in public_modules(package):
            path = f"{name.replace('.', '/')}.html"
            assert (pages / path).is_file() and f'<a href="{path}">{name}</a>' in index
    assert "Robots driven by a script: start or join a graph" in index  # the first sentence of scripting


def test_pages_are_found_from_one_another(pages):
    for page in pages.rglob("*.html"):
        for target in re.findall(r'href="([^"#:]+\.html)', page.read_text()):
            assert (page.parent / unquote(target)).is_file(), f"{page.relative_to(pages)} leads to {target}"


def test_a_page_says_what_the_code_says(pages):
    page = (pages / "sim_core/multibody.html").read_text()
    assert 'href="multibody/model/load.html"' in page  # packages lead to what is in them
    assert 'id="Dynamics.' in page and "<h6" in page  # what is handed on, with its sections
    text = (pages / "recording/bag_reader.html").read_text()
    assert "BagError" in text and "Raises" in text
    assert "truncated" in (pages / "search.js").read_text()


def test_what_cannot_be_imported_is_named(tmp_path, monkeypatch):
    for name, text in {
        "odd/__init__.py": '"""A package."""\n',
        "odd/fine.py": '"""Fine."""\n\n\ndef f(x: int) -> int:\n    """Twice x."""\n    return 2 * x\n',
        "odd/broken.py": "import no_such_package_anywhere\n",
        "odd/_hidden.py": "",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    count, left_out = write_pages(("odd",), tmp_path / "pages")
    assert count == 2 and list(left_out) == ["odd.broken"] and "no_such_package_anywhere" in left_out["odd.broken"]
    assert "Twice x." in (tmp_path / "pages/odd/fine.html").read_text()
    assert sorted(path.name for path in (tmp_path / "pages/odd").iterdir()) == ["fine.html"]
    for name in [name for name in sys.modules if name.partition(".")[0] == "odd"]:
        monkeypatch.delitem(sys.modules, name)


def test_usage(tmp_path, capsys, monkeypatch):
    assert main(["docs", "recordings"]) == 2
    assert "there is no module 'recordings' here; programs may use scripting" in capsys.readouterr().err
    assert main(["docs", "recording.nothing.more"]) == 2
    (tmp_path / "file").write_text("")
    assert main(["docs", "recording.profiles", "--folder", str(tmp_path / "file")]) == 2
    assert "cannot be written" in capsys.readouterr().err
    monkeypatch.setenv("REFIT_RUNS", str(tmp_path))
    assert main(["docs", "recording.profiles"]) == 0
    assert str(tmp_path / "api/index.html") in capsys.readouterr().out
    assert (tmp_path / "api/recording/profiles.html").is_file()
