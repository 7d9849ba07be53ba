"""The page is served to this machine's own pages alone, and a port that is taken is said."""

import re
import socket

import pytest
from page_watcher import Watcher
from websockets.exceptions import InvalidStatus

from cli.demo.live import NO_VIEW, live_view
from config import tiers
from config.tiers import MissingTierError
from nodes.supervision.launch_check import check_arguments
from nodes.view.stage.page import PageError, check_page, is_loopback, open_page


@pytest.fixture
def taken():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        yield other.getsockname()[1]


def test_a_taken_port_is_refused_in_a_sentence(taken):
    with pytest.raises(PageError, match=rf"wants port {taken} of 127.0.0.1, which is taken .* or 0 for a free one"):
        open_page(taken, "test")
    with pytest.raises(ValueError, match=f"view:=true view_port:={taken}: the live view wants port {taken}"):
        check_arguments({"view": "true", "view_port": str(taken)})
    with pytest.raises(ValueError, match="expected a whole number"):
        check_arguments({"view": "true", "view_port": "http"})
    with pytest.raises(PageError, match="expected 0 .* to 65535"):
        check_page(70000)
    check_arguments({"view": "false", "view_port": str(taken)})


@pytest.mark.parametrize("origin", ["http://example.org", "https://127.0.0.1.example.org", "null"])
def test_a_page_of_another_site_is_refused(server, origin):
    with pytest.raises(InvalidStatus, match="403"):
        Watcher(server.get_port(), origin)


def test_its_own_page_is_let_in_also_through_a_tunnel(server):
    for origin in (None, "http://localhost:9999", f"http://127.0.0.1:{server.get_port()}"):
        Watcher(server.get_port(), origin).close()


def test_nobody_can_ask_for_a_public_address(server):
    handled = {kind.__name__ for kind in server._websock_server._incoming_handlers}
    assert "GuiUpdateMessage" in handled and not {name for name in handled if name.startswith("Share")}


@pytest.mark.parametrize(
    ("host", "own"), [("127.0.0.1", True), ("localhost", True), ("0.0.0.0", False), ("robot", False)]
)
def test_loopback_is_known(host, own):
    assert is_loopback(host) is own


def test_a_demonstration_has_a_view_where_somebody_may_look(monkeypatch):
    assert live_view(False, unattended=False) == live_view(None, unattended=True) == NO_VIEW
    assert NO_VIEW.arguments() == {} and NO_VIEW.said == ""
    shown = live_view(None, unattended=False)
    assert shown.arguments()["view"] is True and re.search(rf"http://127.0.0.1:{shown.port} ", shown.said)
    monkeypatch.setitem(tiers.TIERS, "view", ("no_such_package",))
    missing = live_view(None, unattended=False)
    assert missing.port is None and "not installed; with --view" in missing.said
    with pytest.raises(MissingTierError):
        live_view(True, unattended=True)


def test_a_taken_port_costs_a_demonstration_nothing(monkeypatch, taken):
    monkeypatch.setattr("cli.demo.live.PORT", taken)
    assert live_view(None, unattended=False).port not in (None, taken)
