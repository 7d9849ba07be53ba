"""A keystore as ROS 2 security wants it: one authority, and for every enclave a key, a certificate and signed permissions.

    DIR/private/ca.key.pem                  the authority's key: keep it, and keep it off the robot
    DIR/public/ca.cert.pem                  its certificate, under the names identity_ca and permissions_ca as well
    DIR/enclaves/governance.xml, .p7s       the rules for everybody, and the same signed
    DIR/enclaves/<node>/key.pem, cert.pem   who a node is
    DIR/enclaves/<node>/permissions.xml, .p7s

The layout and the choices within it (P-256, SHA-256, S/MIME with a detached signature) are those of sros2 for Jazzy and of
OMG DDS Security 1.1, 9.3 and 9.4.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs7

from cli.security_permissions import Member, governance, permissions
from config.whole_file import whole_file

__all__ = ["Keystore"]

AUTHORITY = "refit CA"
_ROLES = ("identity_ca", "permissions_ca")
# [days] that a certificate is older than its making: clocks of robots lag.
_EARLIER = timedelta(days=1)


class Keystore:
    """See the module's docstring.

    Args:
        folder: new or empty, or a keystore already: then its authority goes on, keys that are there stay, and
            permissions are written anew.
        days: how long what is signed here is valid.

    Raises:
        ValueError: the folder holds something else.
        OSError: it cannot be written.
    """

    def __init__(self, folder: Path, days: int) -> None:
        self.folder = folder
        self._begin = datetime.now(UTC) - _EARLIER
        self._end = self._begin + _EARLIER + timedelta(days=days)
        key, certificate = folder / "private" / "ca.key.pem", folder / "public" / "ca.cert.pem"
        if key.is_file() and certificate.is_file():
            self._key, self._certificate = _load_key(key), x509.load_pem_x509_certificate(certificate.read_bytes())
        elif folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise ValueError(
                f"{folder}: expected a new folder, or a keystore with private/ca.key.pem and public/ca.cert.pem, "
                "found something else; name another folder"
            )
        else:
            self._key = ec.generate_private_key(ec.SECP256R1())
            self._certificate = self._certify(AUTHORITY, self._key)
            _write_key(key, self._key)
            _write(certificate, self._certificate.public_bytes(serialization.Encoding.PEM))
        for role in _ROLES:
            _link(key.with_name(f"{role}.key.pem"), key)
            _link(certificate.with_name(f"{role}.cert.pem"), certificate)
        self._sign(folder / "enclaves" / "governance.xml", governance())

    def add(self, member: Member) -> None:
        """Give an enclave its key and certificate, if it has none, and its permissions."""
        folder = self.folder / "enclaves" / member.enclave.strip("/")
        key, certificate = folder / "key.pem", folder / "cert.pem"
        if not (key.is_file() and certificate.is_file()):
            own = ec.generate_private_key(ec.SECP256R1())
            _write_key(key, own)
            _write(certificate, self._certify(member.enclave, own).public_bytes(serialization.Encoding.PEM))
        for role in _ROLES:
            _link(folder / f"{role}.cert.pem", self.folder / "public" / f"{role}.cert.pem")
        if folder != self.folder / "enclaves":
            _link(folder / "governance.p7s", self.folder / "enclaves" / "governance.p7s")
        self._sign(folder / "permissions.xml", permissions(member, self._begin, self._end))

    def _certify(self, name: str, key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
        """A certificate of the authority for whoever has this key; for itself, if the key is its own."""
        own = key is self._key
        issuer = _named(name) if own else self._certificate.subject
        return (
            x509.CertificateBuilder()
            .subject_name(_named(name))
            .issuer_name(issuer)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._begin)
            .not_valid_after(self._end)
            .add_extension(x509.BasicConstraints(ca=own, path_length=0 if own else None), critical=True)
            .sign(self._key, hashes.SHA256())
        )

    def _sign(self, path: Path, document: bytes) -> None:
        """Write a document, and beside it the same with the authority's signature."""
        _write(path, document)
        signed = (
            pkcs7.PKCS7SignatureBuilder()
            .set_data(document)
            .add_signer(self._certificate, self._key, hashes.SHA256())
            .sign(serialization.Encoding.SMIME, [pkcs7.PKCS7Options.Text, pkcs7.PKCS7Options.DetachedSignature])
        )
        _write(path.with_suffix(".p7s"), signed)


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])


def _load_key(path: Path) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(path.read_bytes(), None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError(
            f"{path}: expected a key of an elliptic curve, found {type(key).__name__}; name another folder"
        )
    return key


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    """For its owner's eyes alone, from the first moment on."""
    text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    with whole_file(path) as partial:
        partial.touch(mode=0o600)
        partial.write_bytes(text)


def _write(path: Path, content: bytes) -> None:
    with whole_file(path) as partial:
        partial.write_bytes(content)


def _link(link: Path, target: Path) -> None:
    """Relative, so that a keystore can be moved."""
    link.unlink(missing_ok=True)
    link.symlink_to(os.path.relpath(target, link.parent))
