"""The page that is committed is what its sources build, is small, and loads nothing from anywhere else."""

import hashlib
import json
import re
from pathlib import Path

from nodes.telepresence.page_files import KINDS, page_files
from nodes.telepresence.protocol import BUTTONS, MAX_BYTES, ROLES, VERSION
from nodes.telepresence.protocol_robot import REFUSALS, STATES

ROOT = Path(__file__).resolve().parents[3]
STATION, PAGE = ROOT / "station", ROOT / "nodes" / "telepresence" / "page"
#: as in station/seal.mjs
SOURCES = ("index.html", "package.json", "package-lock.json", "tsconfig.json", "vite.config.ts", "seal.mjs")


def source(name):
    return (STATION / "src" / name).read_text(encoding="utf-8")


def listed(folder, names):
    """Hash of the hashes and names of files."""
    lines = (f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}\n" for name in sorted(names))
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def texts_of(name, text):
    """The texts in the declaration of a type or constant."""
    body = re.search(rf"\b{name}\b[^=]*=\s*([^;]*);", text)[1]
    return tuple(re.findall(r'"(\w+)"', body))


def test_the_page_is_what_the_sources_build():
    built = json.loads((PAGE / "built.json").read_text())
    sources = [*SOURCES, *(f"src/{path.name}" for path in (STATION / "src").iterdir())]
    told = "the sources have changed: cd station && npm ci && npm run build"
    assert built["sources"] == listed(STATION, sources), told
    files = [path.name for path in PAGE.iterdir() if path.name != "built.json"]
    assert built["files"] == listed(PAGE, files), "the built page was changed by hand: build it from station/"


def test_the_page_is_small_and_served_whole():
    served = page_files(PAGE)
    assert {"/", "/index.html", "/station.js", "/station.css"} <= set(served)
    assert sum(path.stat().st_size for path in PAGE.iterdir()) < 1.5e6
    index = (PAGE / "index.html").read_text()
    named = re.findall(r'(?:src|href)="(?!data:)\./([^"]+)"', index)
    assert named and all(f"/{name}" in served for name in named)
    assert (PAGE / "three_license.txt").read_text().startswith("The MIT License") and ".txt" not in KINDS


def test_the_page_loads_nothing_from_elsewhere():
    for name in ("index.html", "station.css"):
        assert "://" not in (PAGE / name).read_text(), name
    # The policy forbids what is not the robot's own; no script is written into the document.
    assert not re.search(r"<script(?![^>]*\bsrc=)", (PAGE / "index.html").read_text())


def test_no_package_comes_from_a_private_registry():
    lock = json.loads((STATION / "package-lock.json").read_text())
    for name, package in lock["packages"].items():
        address = package.get("resolved", "https://registry.npmjs.org/")
        assert address.startswith("https://registry.npmjs.org/"), name
    declared = json.loads((STATION / "package.json").read_text())
    for name, version in {**declared["dependencies"], **declared["devDependencies"]}.items():
        assert re.fullmatch(r"\d+\.\d+\.\d+", version), f"{name}: expected one version, found '{version}'"


def test_the_page_speaks_the_protocol_of_the_robot():
    text = source("protocol.ts")
    assert f"VERSION = {VERSION};" in text and f"MAX_BYTES = {MAX_BYTES};" in text
    assert texts_of("Role", text) == ("operator", "watcher") and set(ROLES) == {"operator", "watcher"}
    assert set(texts_of("ButtonName", text)) == set(BUTTONS)
    assert set(texts_of("RefusalCode", text)) == set(REFUSALS)
    assert set(texts_of("SessionState", text)) == set(STATES)


def test_the_training_is_that_of_the_table():
    """Twelve steps of 45 minutes in all: Zhu (2023), table 8.6."""
    minutes = [int(found) for found in re.findall(r"^    minutes: (\d+),$", source("training.ts"), re.MULTILINE)]
    assert minutes == [1, 2, 7, 2, 2, 4, 1, 1, 2, 10, 8, 5] and sum(minutes) == 45


def test_the_page_of_the_documentation_names_every_key():
    """Each key of the bindings stands in the page's own table and in docs/station.md."""
    bindings = source("bindings.ts")
    page = (ROOT / "docs" / "station.md").read_text()
    help_rows = re.search(r"HELP\b.*?= \[(.*?)^\];", bindings, re.MULTILINE | re.DOTALL)[1]
    for code in re.findall(r'code: "(?:Key|Digit)(\w)"', bindings):
        assert re.search(rf"\b{code}\b", help_rows), f"the key {code} is not in the table of the page"
        assert re.search(rf"\b{code}\b", page), f"the key {code} is not in docs/station.md"
