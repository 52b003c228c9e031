"""PEM as it stands in kubeconfigs: blocks of certificates, until when one is valid, whether a key fits.

Errors never have any of the content.
"""

from __future__ import annotations

import re
import ssl
from datetime import UTC, datetime

from wharfinger.apiserver.key_files import load_pair
from wharfinger.errors import ConfigurationError

_BLOCK = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_KEY = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----")


def blocks(pem: bytes) -> list[str]:
    """Each certificate in a PEM, without what stands between them."""
    return [block.decode("ascii", errors="replace") for block in _BLOCK.findall(pem)]


def check_authorities(pem: bytes) -> None:
    """Raises `ConfigurationError`, whose text follows the name of a field, for what has no usable certificate."""
    if not (found := blocks(pem)):
        raise ConfigurationError("has no PEM certificate; it must begin with -----BEGIN CERTIFICATE-----")
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata="\n".join(found))
    except (ssl.SSLError, ValueError):
        raise ConfigurationError("has a damaged certificate; copy the file again") from None


def check_pair(certificate: bytes, key: bytes) -> float:
    """Until when a client certificate is valid (Unix time), after checking that the key is its own.

    Blocks. Raises `ConfigurationError`, whose text follows the name of a field.
    """
    if not (found := blocks(certificate)):
        raise ConfigurationError("has no PEM certificate; it must begin with -----BEGIN CERTIFICATE-----")
    if not _KEY.search(key):
        raise ConfigurationError("comes with a key that is no PEM; it must begin with -----BEGIN ... PRIVATE KEY-----")
    from cryptography import x509  # slow to import, and seldom needed

    try:
        until = x509.load_pem_x509_certificate(found[0].encode()).not_valid_after_utc.timestamp()
    except ValueError:
        raise ConfigurationError("has a damaged certificate; copy the file again") from None
    load_pair(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), certificate, key)
    return until


def check_valid(until: float, now: float) -> None:
    """Raises `ConfigurationError`, whose text follows the name of a field, for a certificate that has expired."""
    if now >= until:
        raise ConfigurationError(f"expired on {timestamp(until)}; have a new certificate signed, or check the clock")


def timestamp(at: float) -> str:
    """Unix time as people read it."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%SZ}"
