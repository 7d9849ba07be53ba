"""`refit docs`: the pages of the Python API, from docstrings and annotations."""

from __future__ import annotations

import contextlib
import gc
import importlib.util
import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from cli.errors import CommandError
from config.tiers import require
from reporting.checks import EXIT_OK

#: what a program may import, the ones that most programs need first
PACKAGES = (
    "scripting",
    "identification",
    "sim_core",
    "recording",
    "hardware",
    "nodes.framework",
    "reporting",
    "config",
)

#: the first page: every module with its first sentence, and the field that searches all of them
INDEX = """
{% extends "default/index.html.jinja2" %}
{% block title %}refit: Python API{% endblock %}
{% block logo %}<h1 style="margin-right: 2rem">refit: Python API</h1>{% endblock %}
{% block nav %}
    <h2>Packages</h2>
    <ul>{% for name in packages %}<li><a href="#{{ name }}">{{ name }}</a></li>{% endfor %}</ul>
{% endblock %}
{% block content %}
    {{ super() }}
    <section class="pdoc">
    {% for name, module in all_modules.items() %}
        {% if name in packages %}<h2 id="{{ name }}">{{ name }}</h2>{% endif %}
        <p style="margin: 0.2rem 0 0.2rem {{ 1.2 * name.count(".") }}rem">
            <a href="{{ name.replace(".", "/") }}.html">{{ name }}</a>
            {{ module.docstring.partition("\n")[0] }}
        </p>
    {% endfor %}
    </section>
{% endblock %}
"""


def docs(
    modules: Annotated[
        list[str] | None,
        typer.Argument(help="packages or modules, as in an import; by default everything that programs may use"),
    ] = None,
    folder: Annotated[
        Path | None, typer.Option(help="where the pages go; by default runs/api, or api below REFIT_RUNS")
    ] = None,
) -> int:
    """Write the pages of the Python API: every public module, class and function, with a search field.

    They are plain HTML files, which need no server and no network. A module that needs packages which are not
    installed is left out and named. Exit code 0; 2: wrong usage, or no such module.
    """
    require("docs", "refit docs")
    folder = folder or Path(os.environ.get("REFIT_RUNS", "runs")) / "api"
    packages = tuple(modules or PACKAGES)
    for name in packages:
        if not _exists(name):
            raise CommandError(f"there is no module '{name}' here; programs may use {', '.join(PACKAGES)}")
    console = Console(stderr=True)
    try:
        with console.status("reading the modules") as status:
            written, left_out = write_pages(packages, folder, lambda name: status.update(f"writing {name}"))
    except OSError as error:
        raise CommandError(f"the pages cannot be written: {error}") from error
    for name, why in left_out.items():
        console.print(f"{name} is left out: {why}", markup=False, soft_wrap=True)
    Console().print(f"{written} modules: {folder / 'index.html'}", markup=False, soft_wrap=True)
    return EXIT_OK


@contextlib.contextmanager
def _without_garbage_collection() -> Iterator[None]:
    """Nothing of what pages are made of is garbage before all are written, and looking for it takes a third of the time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


@_without_garbage_collection()
def write_pages(
    packages: tuple[str, ...], folder: Path, tell: Callable[[str], None] = lambda name: None
) -> tuple[int, dict[str, str]]:
    """Write one page for each module, `index.html` and what the search field needs.

    Args:
        packages: modules and packages as in an import; of packages all public modules below.
        folder: made if it is not there.
        tell: called with the name of each module whose page is written.

    Returns:
        the number of pages, and the modules that could not be imported, each with the reason.

    Raises:
        OSError: the folder cannot be written.
    """
    from jinja2 import ChoiceLoader, DictLoader
    from pdoc import doc, render

    pages: dict[str, doc.Module] = {}
    left_out: dict[str, str] = {}

    class Page(doc.Module):
        """A module whose page leads to those below it, also where `__all__` names what it hands on from them."""

        @property  # not cached, as pdoc's: it is asked for while the modules are still being read
        def submodules(self) -> list[doc.Module]:
            below = {name: page for name, page in pages.items() if name.startswith(f"{self.fullname}.")}
            # Folders without a file of their own have no page: what is in them is named by the package above.
            return [page for name, page in below.items() if not any(name.startswith(f"{other}.") for other in below)]

    for name in dict.fromkeys(name for package in packages for name in public_modules(package)):
        try:
            pages[name] = Page.from_name(name)
        except RuntimeError as error:
            left_out[name] = str(error.__cause__ or error).partition("\n")[0]
    render.configure(docformat="google", show_source=False)  # with it they are 56 MB
    templates = render.env.loader
    assert templates is not None  # `configure` has set it
    render.env.loader = ChoiceLoader([DictLoader({"index.html.jinja2": INDEX}), templates])
    render.env.globals["packages"] = packages
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of annotations that only a type checker imports
        for name, page in pages.items():
            tell(name)
            file = folder / f"{name.replace('.', '/')}.html"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(render.html_module(page, pages))
        (folder / "index.html").write_text(render.html_index(pages))
        (folder / "search.js").write_text(render.search_index(pages))
    return len(pages), left_out


def public_modules(name: str) -> Iterator[str]:
    """A module and, of a package, all public ones below, packages before what is in them; nothing is imported."""
    spec = importlib.util.find_spec(name)
    if spec is None:
        return
    if spec.origin is not None:
        yield name
    for place in spec.submodule_search_locations or ():
        for path in sorted(Path(place).iterdir()):
            if path.name.startswith("_"):
                continue
            if path.is_dir() and any(path.glob("*.py")):
                yield from public_modules(f"{name}.{path.name}")
            elif path.suffix == ".py":
                yield f"{name}.{path.stem}"


def _exists(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):  # a package above is not there, or is no package
        return False
