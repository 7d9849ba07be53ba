"""The configuration page of a Net F/T, http://ADDRESS/netftapi2.xml: who it is, what its counts mean, how it is.

Source: ATI, Net F/T Manual 9620-05, chapters "XML pages" and "Common Gateway Interface". Counts per unit belong to
the calibration and to the units chosen on the device's web page, so they are read, never assumed.
"""

from __future__ import annotations

import http.client
import urllib.parse
import urllib.request
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from typing import Any

import numpy as np

from hardware.link import DeviceError, Identity, NotAnswering

__all__ = [
    "FORCE_UNITS",
    "MOST_RECORDS",
    "TORQUE_UNITS",
    "Configuration",
    "fetch_configuration",
    "parse_configuration",
    "write_settings",
]

MOST_RECORDS = 40  # of one datagram (manual, "RDT Buffer Size")
# The definitions of the international yard, pound and kilogram-force are exact.
_LBF, _INCH, _KGF = 4.4482216152605, 0.0254, 9.80665
#: Units by name, in N and N m. The manual writes N-m, firmware 2.2 writes Nm: hyphens and case are ignored.
FORCE_UNITS = {"N": 1.0, "kN": 1e3, "lbf": _LBF, "klbf": 1e3 * _LBF, "kgf": _KGF, "gf": 1e-3 * _KGF}
TORQUE_UNITS = {
    "N-m": 1.0,
    "N-mm": 1e-3,
    "kN-m": 1e3,
    "lbf-in": _LBF * _INCH,
    "lbf-ft": _LBF * 12 * _INCH,
    "kgf-cm": _KGF * 0.01,
}


@dataclass(frozen=True)
class Configuration:
    """What the page says, in SI units.

    Attributes:
        identity: product name, calibration's serial number, firmware.
        scale: SI value of one count, (6,) [N, N m].
        rated: largest load of each axis, (6,) [N, N m]; inf where the page says none.
        rdt_rate: records per second of the stream [Hz].
        internal_rate: samples per second that ft_sequence counts [Hz].
        buffer_size: records per datagram of the buffered stream, 1 to MOST_RECORDS.
        status: status word at the time of reading.
        units: names of force and torque unit as the device has them.
    """

    identity: Identity
    scale: np.ndarray
    rated: np.ndarray
    rdt_rate: float
    internal_rate: float
    buffer_size: int
    status: int
    units: tuple[str, str]

    def same_scale(self, other: Configuration) -> bool:
        """Whether counts mean the same."""
        return np.array_equal(self.scale, other.scale)


def parse_configuration(page: bytes | str) -> Configuration:
    """Read the page.

    Raises:
        DeviceError: it is no such page, or a value that conversion needs is missing or impossible.
    """
    try:
        root = ET.fromstring(page)
    except (ET.ParseError, ValueError, LookupError) as error:
        raise DeviceError(f"the configuration page is no XML ({error}): is this the address of a Net F/T?") from None
    values = {element.tag.rpartition("}")[2]: (element.text or "").strip() for element in root.iter()}

    def number(name: str, default: float | None = None) -> float:
        text = values.get(name, "")
        if not text and default is not None:
            return default
        try:
            value = float(text)
        except ValueError:
            value = np.nan
        if not (0.0 < value < np.inf):
            raise DeviceError(
                f"the configuration page gives {name} as '{text}', expected a positive number: check the sensor's web page"
            )
        return value

    def whole(name: str, default: int, most: int) -> int:
        text = values.get(name, "")
        if not text:
            return default
        if not (text.isascii() and text.isdigit() and len(text) <= 9 and 1 <= int(text) <= most):
            raise DeviceError(
                f"the configuration page gives {name} as '{text[:20]}', expected a whole number from 1 to {most}: "
                "check the sensor's web page"
            )
        return int(text)

    def unit(name: str, known: dict[str, float]) -> float:
        by_key = {_key(each): value for each, value in known.items()}
        found = by_key.get(_key(values.get(name, "")))
        if found is None:
            raise DeviceError(
                f"the configuration page gives {name} as '{values.get(name, '')}', known are {', '.join(known)}: "
                "choose one of them on the sensor's web page"
            )
        return found

    force, torque = unit("scfgfu", FORCE_UNITS), unit("scfgtu", TORQUE_UNITS)
    internal = number("runrate", 7000.0)
    units = np.repeat([force, torque], 3)
    return Configuration(
        identity=Identity(
            values.get("prodname") or "ATI Net F/T",
            values.get("cfgcalsn") or values.get("mfgdigsn", ""),
            values.get("mfgdigver", ""),
        ),
        scale=units / np.repeat([number("cfgcpf"), number("cfgcpt")], 3),
        rated=_rated(values.get("cfgmr", "")) * units,
        rdt_rate=number("comrdtrate", internal),
        internal_rate=internal,
        buffer_size=whole("comrdtbsiz", 1, MOST_RECORDS),
        status=_status(values.get("runstat", "")),
        units=(values["scfgfu"], values["scfgtu"]),
    )


def fetch_configuration(address: str, http_port: int = 80, timeout: float = 2.0) -> Configuration:
    """Read the page from a sensor.

    Raises:
        NotAnswering: nobody there.
        DeviceError: as `parse_configuration`.
    """
    return parse_configuration(_get(address, http_port, "netftapi2.xml", timeout))


def write_settings(address: str, http_port: int = 80, timeout: float = 2.0, **settings: Any) -> None:
    """Change communication settings (comrdtrate, comrdtbsiz); the sensor keeps them when it is off.

    Raises:
        NotAnswering: nobody there.
    """
    _get(address, http_port, "comm.cgi?" + urllib.parse.urlencode(settings), timeout)


def _get(address: str, http_port: int, what: str, timeout: float) -> bytes:
    url = f"http://{address}:{http_port}/{what}"
    # Sensors are on the local network: a proxy of the environment would be asked for them in vain.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=timeout) as reply:
            return reply.read(1 << 20)
    except (OSError, ValueError) as error:  # URLError is an OSError
        raise NotAnswering(
            f"{url} does not answer ({getattr(error, 'reason', error)}): check address, cable and power"
        ) from None
    except http.client.HTTPException as error:
        raise NotAnswering(
            f"{url} answers with something that is no HTTP ({type(error).__name__}): is this a Net F/T?"
        ) from None


def _key(unit: str) -> str:
    return "".join(c for c in unit.lower() if c.isalnum())


def _rated(text: str) -> np.ndarray:
    try:
        rated = np.array([float(part) for part in text.split(";")])
    except ValueError:
        return np.full(6, np.inf)
    # The web page allows 0 for "not given".
    return np.where(rated > 0.0, rated, np.inf) if rated.shape == (6,) else np.full(6, np.inf)


def _status(text: str) -> int:
    try:
        return int(text, 16) & 0xFFFFFFFF
    except ValueError:
        return 0
