"""The files of the operator's page, as they lie in a folder: what is listed there at the start is served, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["HEADERS", "PageFile", "page_files"]

#: ending -> what a browser is told that it is; files of other endings are not served
KINDS = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json",
    ".woff2": "font/woff2",
    ".glb": "model/gltf-binary",
    ".svg": "image/svg+xml",
    ".png": "image/png",
}
#: the page loads nothing from anywhere else, is shown in no frame of another, and may use headset, camera and microphone
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data: blob:; media-src 'self' blob:; connect-src 'self' data: blob:; worker-src 'self' blob:; "
        "object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "Permissions-Policy": "xr-spatial-tracking=(self), camera=(self), microphone=(self)",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
    "Server": "refit",
}


@dataclass(frozen=True)
class PageFile:
    """A file, and what a browser is told that it is."""

    path: Path
    kind: str


def page_files(folder: Path) -> dict[str, PageFile]:
    """{path of the request: file} of every servable file below a folder; `/` is its index.html.

    Links are left out, so that nothing outside the folder can be reached. Empty where there is no such folder.
    """
    found = {}
    for path in sorted(folder.rglob("*")):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        inside = path.resolve().is_relative_to(folder.resolve()) and not path.is_symlink()
        if path.suffix in KINDS and path.is_file() and inside and not hidden:
            found[f"/{path.relative_to(folder).as_posix()}"] = PageFile(path, KINDS[path.suffix])
    if "/index.html" in found:
        found["/"] = found["/index.html"]
    return found
