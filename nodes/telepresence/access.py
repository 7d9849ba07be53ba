"""Who may speak to the robot: from where, with which token, once per nonce, and one operator at a time.

The page is on this machine alone unless somebody asks for more, and more is refused without a token and without
encryption. A page of another site, which a browser would connect as readily, is refused by its origin. Knows neither the
network nor ROS.
"""

from __future__ import annotations

import hmac
import ssl
import stat
from collections import OrderedDict
from collections.abc import Hashable
from pathlib import Path
from typing import Generic, TypeVar
from urllib.parse import urlsplit

from nodes.telepresence.protocol import Hello
from nodes.view.stage.page import is_loopback

__all__ = [
    "Door",
    "NotAdmitted",
    "Occupied",
    "Seat",
    "check_exposure",
    "is_own_page",
    "is_own_name",
    "read_token",
    "tls_context",
]

#: characters of a token; 22 of base64 are 128 bits
SHORTEST_TOKEN, LONGEST_TOKEN = 22, 256
#: nonces that are remembered: those of a hello a second for a day
REMEMBERED = 86400
#: [s] of silence after which somebody else may have the operator's seat; a client sends a ping five times a second
SILENCE = 2.0
#: [s] of silence after which it is in doubt whether the operator is still there
DOUBT = 0.5

Who = TypeVar("Who", bound=Hashable)


class NotAdmitted(Exception):
    """Somebody may not come in, or not do what he asks. The text is one sentence.

    Attributes:
        code: one of protocol_robot.REFUSALS.
    """

    def __init__(self, code: str, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


class Occupied(NotAdmitted):
    """Another operator is there.

    Attributes:
        again: [s] after which to ask once more, because it is in doubt whether he is; None: he is.
    """

    def __init__(self, sentence: str, again: float | None) -> None:
        super().__init__("occupied", sentence)
        self.again = again


def check_exposure(host: str, token_file: str, certificate: str, key: str) -> None:
    """Whether a server may listen on an address with these means.

    Raises:
        ValueError: beyond loopback something is missing; or a certificate has no key, or a key no certificate.
    """
    if bool(certificate) != bool(key):
        raise ValueError(
            f"expected both a certificate and its key, found only '{certificate or key}'; give both parameters, or neither"
        )
    if is_loopback(host):
        return
    missing = [name for name, value in (("token_file", token_file), ("certificate", certificate)) if not value]
    if missing:
        raise ValueError(
            f"to listen on {host}, which others reach, {' and '.join(missing)} must be given, found none; give "
            f"{'them' if len(missing) > 1 else 'it'}, or host 127.0.0.1"
        )


def read_token(path: str | Path) -> str:
    """The token in a file, which is one line that nobody but the file's owner can read.

    Raises:
        ValueError: the file cannot be read, others can read it, or what it holds is no token.
    """
    path = Path(path).expanduser()
    try:
        mode, text = path.stat().st_mode, path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise ValueError(
            f"the token file {path} cannot be read ({reason}); write one line of {SHORTEST_TOKEN} characters into it"
        ) from None
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ValueError(f"the token file {path} can be read by others; run chmod 600 {path}")
    if not SHORTEST_TOKEN <= len(text) <= LONGEST_TOKEN or not text.isprintable() or " " in text:
        raise ValueError(
            f"expected one line of {SHORTEST_TOKEN} to {LONGEST_TOKEN} characters without spaces in the token file {path}, "
            f"found {len(text)} characters"
        )
    return text


def tls_context(certificate: str | Path, key: str | Path) -> ssl.SSLContext:
    """What a server encrypts with, by TLS 1.2 or later.

    Raises:
        ValueError: certificate or key cannot be read, or do not belong together.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(Path(certificate).expanduser(), Path(key).expanduser())
    except (OSError, ssl.SSLError) as error:
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
        raise ValueError(
            f"expected a PEM certificate in {certificate} and its key in {key}, which could not be loaded ({reason}); "
            "give a pair that belongs together"
        ) from None
    return context


def is_own_name(name: str, host: str) -> bool:
    """Whether a request that is made of `name`, as a browser's line Host says, means a server on `host`.

    On loopback another name is one that a stranger's name server has turned towards this machine.
    """
    return not is_loopback(host) or is_loopback(urlsplit(f"//{name}").hostname or "")


def is_own_page(origin: str | None, name: str, host: str) -> bool:
    """Whether a page may connect.

    Args:
        origin: of the page, as a browser says it; None: of a program, which says none.
        name: by which the server was asked. host: address that it listens on.
    """
    if origin is None:
        return True
    try:
        parts = urlsplit(origin)
        hostname = parts.hostname or ""
    except ValueError:
        return False
    if parts.scheme not in ("http", "https"):
        return False
    # At the near end of a tunnel the page's port is another than the server's.
    return is_loopback(hostname) if is_loopback(host) else parts.netloc == name


class Door:
    """Lets a hello in that has the token and a nonce nobody has used.

    Args:
        token: None: none is asked for, as on loopback, where whoever reaches the server is on this machine.
        remembered: nonces that are kept; of more the oldest are forgotten.
    """

    def __init__(self, token: str | None = None, remembered: int = REMEMBERED) -> None:
        self._token = None if token is None else token.encode()
        self._remembered = remembered
        self._used: OrderedDict[str, None] = OrderedDict()

    def admit(self, hello: Hello) -> None:
        """Let somebody in, once.

        Raises:
            NotAdmitted: wrong token, or a nonce that has been used.
        """
        if self._token is not None and not hmac.compare_digest(self._token, hello.token.encode()):
            raise NotAdmitted(
                "token", "The token is not the one of this robot's token file; ask whoever started the robot."
            )
        # After the token, so that a stranger cannot fill the book.
        if hello.nonce in self._used:
            raise NotAdmitted("replay", "This hello has been said before; say a new one with a fresh nonce.")
        self._used[hello.nonce] = None
        while len(self._used) > self._remembered:
            self._used.popitem(last=False)


class Seat(Generic[Who]):
    """The operator's seat: one at a time has it, until he leaves it or falls silent.

    An operator whose network went away sits there until his connection ends, which can take minutes. So who has not been
    heard of for `silence` [s] is sent away as soon as somebody else asks.
    """

    def __init__(self, silence: float = SILENCE, doubt: float = DOUBT) -> None:
        self._silence, self._doubt = silence, doubt
        self._heard = 0.0
        self.holder: Who | None = None
        self.name = ""

    def hear(self, who: Who, now: float) -> None:
        """Somebody has said something, at a time [s] of a clock that never goes back."""
        if who == self.holder:
            self._heard = now

    def take(self, who: Who, name: str, now: float) -> Who | None:
        """Give the seat to somebody; returns who has lost it by that.

        Raises:
            Occupied: another operator is there.
        """
        if self.holder == who:
            return None
        if self.holder is not None and (silent := now - self._heard) < self._silence:
            again = self._silence - silent if silent > self._doubt else None
            raise Occupied(f"{self.name} drives the robot; ask for a release, or watch.", again)
        lost, self.holder = self.holder, who
        self.name, self._heard = name, now
        return lost

    def leave(self, who: Who) -> bool:
        """Free the seat, if it is this one's; whether it was."""
        if self.holder is None or self.holder != who:
            return False
        self.holder, self.name = None, ""
        return True
