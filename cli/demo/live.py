"""The live view of a demonstration: whether there is one, at which port, and what a person is told of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from config.tiers import MissingTierError
from nodes.view.stage.page import PageError, check_page, free_port, url_of

__all__ = ["NO_VIEW", "LiveView", "live_view"]

PORT = 8080


@dataclass(frozen=True)
class LiveView:
    """What graphs are told of the view.

    Attributes:
        port: of the page; None: there is none.
        said: a sentence for the person who looks; "": nothing to say.
    """

    port: int | None = None
    said: str = ""

    def arguments(self, reference: Path | None = None) -> dict[str, object]:
        """Of a launch file.

        Args:
            reference: bag of an earlier run to be drawn beside the one that is started; None: none.
        """
        if self.port is None:
            return {}
        return {"view": True, "view_port": self.port, "view_reference": "" if reference is None else str(reference)}


NO_VIEW = LiveView()


def live_view(wanted: bool | None, unattended: bool) -> LiveView:
    """The view that a demonstration has.

    By default there is one wherever it costs nothing to have it: not where nobody will look, and not where its packages would
    have to be fetched first, which a person is told of instead.

    Args:
        wanted: by --view or --no-view; None: neither was said. unattended: --quick or --headless was.

    Raises:
        MissingTierError: it was asked for by name, and its packages are not installed.
    """
    if wanted is False or (wanted is None and unattended):
        return NO_VIEW
    port = PORT
    try:
        check_page(port)
    except MissingTierError:
        if wanted:
            raise
        return LiveView(said="No live view: its packages (20 MB) are not installed; with --view they are, once.")
    except PageError:
        port = free_port()
    return LiveView(port, f"Live view: {url_of('127.0.0.1', port)} as soon as the nodes have started; --no-view: none.")
