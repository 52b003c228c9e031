"""Certificates for tests: an authority, and what it signs."""

from __future__ import annotations

import datetime
import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

in_memory_only = pytest.mark.skipif(
    not hasattr(os, "memfd_create"), reason="this Python was built for systems that cannot keep a key in memory"
)

SIGNS_ONLY = x509.KeyUsage(
    digital_signature=False, content_commitment=False, key_encipherment=False, data_encipherment=False,
    key_agreement=False, key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False,
)  # fmt: skip


@dataclass(frozen=True)
class Signed:
    """Where a certificate and its key lie, as PEM."""

    cert: Path
    key: Path


class Authority:
    """Signs certificates; `pem` is what its friends trust."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.pem = folder / f"{name}.pem"
        certificate = self._certificate(self._name, self._key, None, authority=True)
        self.pem.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def sign(
        self, name: str, *, host: str | None = None, common_name: bool = True, organizations: Sequence[str] = ()
    ) -> Signed:
        """A certificate for a server at `host`, or for a client; without `common_name`, `name` is only its file's."""
        key = ec.generate_private_key(ec.SECP256R1())
        named = NameOID.COMMON_NAME if common_name else NameOID.ORGANIZATIONAL_UNIT_NAME
        groups = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization) for organization in organizations]
        subject = x509.Name([*groups, x509.NameAttribute(named, name)])
        signed = Signed(self._folder / f"{name}.crt", self._folder / f"{name}.key")
        certificate = self._certificate(subject, key, host, authority=False)
        signed.cert.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        signed.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return signed

    def _certificate(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, host: str | None, *, authority: bool
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(hours=1))
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        if authority:
            builder = builder.add_extension(SIGNS_ONLY, critical=True)
        if host is not None:
            named = x509.IPAddress(ipaddress.ip_address(host)) if host[0].isdigit() else x509.DNSName(host)
            builder = builder.add_extension(x509.SubjectAlternativeName([named]), critical=False)
        return builder.sign(self._key, hashes.SHA256())
