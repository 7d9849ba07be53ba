"""The web server of the page: on this machine alone, for this machine's own pages alone, never through a tunnel."""

from __future__ import annotations

import functools
import ipaddress
import logging
import re
import socket
from typing import TYPE_CHECKING

from config.tiers import require

if TYPE_CHECKING:
    import viser

__all__ = ["PageError", "check_page", "free_port", "is_loopback", "open_page", "url_of"]

#: pages that may speak to the server: its own, also at the near end of an ssh tunnel. A browser sends any other page's
#: origin along, and None stands for programs, which send none
_ORIGINS = (re.compile(r"http://(127\.0\.0\.1|localhost|\[::1\])(:\d+)?"), None)


class PageError(OSError):
    """The page cannot be served; the text is one sentence that says what to do."""


def is_loopback(host: str) -> bool:
    """Whether an address is reached from this machine alone."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def free_port(host: str = "127.0.0.1") -> int:
    """A port that nobody listens on now."""
    with socket.socket() as trial:
        trial.bind((host, 0))
        return int(trial.getsockname()[1])


def url_of(host: str, port: int) -> str:
    """What to open in a browser on this machine."""
    return f"http://{'127.0.0.1' if host == '0.0.0.0' else host}:{port}"


def open_page(port: int, title: str, host: str = "127.0.0.1") -> viser.ViserServer:
    """Serve an empty page.

    Args:
        port: 0: a free one, see the server's `get_port()`. title: over the panel.
        host: address to listen on. Beyond loopback the origin of who connects is not looked at.

    Raises:
        MissingTierError: viser is not installed.
        PageError: the port is taken, or the address is none of this machine's.
    """
    check_page(port, host)
    from unittest import mock

    import rich

    rich.get_console().quiet = True  # viser announces its beginning in a box, and its end
    # A browser opens connections ahead of need and closes them unused, which is no error worth a traceback.
    logging.getLogger("websockets.server").setLevel(logging.CRITICAL)
    import viser
    import websockets.asyncio.server
    from viser import _messages

    # viser lets pages of every origin connect, so that any site that a person visits could press the buttons of this one.
    serve = functools.partial(websockets.asyncio.server.serve, origins=_ORIGINS if is_loopback(host) else None)
    with mock.patch.object(websockets.asyncio.server, "serve", serve):
        server = viser.ViserServer(host=host, port=port, label=title, verbose=False)
    # Whoever is connected could ask for a public address of the page, at the maker's server.
    for message in (_messages.ShareUrlRequest, _messages.ShareUrlDisconnect):
        server._websock_server.unregister_handler(message)
    if port and server.get_port() != port:  # viser takes the next one when somebody was faster
        server.stop()
        raise _taken(host, port)
    server.gui.configure_theme(
        show_logo=False, show_share_button=False, control_width="large", brand_color=(0, 115, 178)
    )
    server.gui.main_panel.dock_right()
    server.scene.add_grid(
        "/floor", 4.0, 4.0, cell_size=0.1, section_size=0.5, cell_color=(225, 228, 232), section_color=(190, 196, 204)
    )
    return server


def check_page(port: int, host: str = "127.0.0.1") -> None:
    """Whether a page could be served now.

    Raises:
        MissingTierError: viser is not installed.
        PageError: the port is taken or none, or the address is none of this machine's.
    """
    require("view", "the live view")
    if not 0 <= port <= 65535:
        raise PageError(f"the live view wants port {port}; expected 0 (a free one) to 65535")
    if not port:
        return
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((host, port))
        except OSError as error:
            if isinstance(error, PermissionError) or error.errno in (98, 48):
                raise _taken(host, port) from None
            raise PageError(f"the live view cannot listen on {host}: {error.strerror}; give host 127.0.0.1") from None


def _taken(host: str, port: int) -> PageError:
    return PageError(
        f"the live view wants port {port} of {host}, which is taken or not allowed; give another, or 0 for a free one"
    )
