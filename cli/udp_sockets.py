"""Where a process listens: the UDP sockets it has, as Linux tells them. Standard library alone, as doctor needs it."""

from __future__ import annotations

import ipaddress
import os
import struct
from pathlib import Path

__all__ = ["udp_addresses"]


def udp_addresses(pid: int) -> set[str]:
    """Addresses without ports that the UDP sockets of a process are bound to: "127.0.0.1"; "0.0.0.0" means all of them.

    Raises:
        OSError: there is no such process, or it is somebody else's.
    """
    inodes = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = os.readlink(entry)
        except FileNotFoundError:  # closed meanwhile
            continue
        if target.startswith("socket:["):
            inodes.add(target[len("socket:[") : -1])
    addresses = set()
    for table in ("udp", "udp6"):
        path = Path(f"/proc/{pid}/net/{table}")
        for line in path.read_text().splitlines()[1:] if path.exists() else ():
            fields = line.split()
            if fields[9] in inodes:
                addresses.add(_address(fields[1].partition(":")[0]))
    return addresses


def _address(text: str) -> str:
    """The kernel writes addresses as words of 32 bits in the machine's own order."""
    words = struct.unpack(f">{len(text) // 8}I", bytes.fromhex(text))
    return str(ipaddress.ip_address(b"".join(struct.pack("=I", word) for word in words)))
