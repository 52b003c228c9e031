"""PEM as it stands in kubeconfigs: blocks of certificates, until when one is valid, whether a key fits.

The standard library reads no certificate of a client, so the few bytes before its end date are read here (X.509,
RFC 5280, in DER). Errors never have any of the content.
"""

from __future__ import annotations

import re
import ssl
from datetime import UTC, datetime

from wharfinger.errors import ConfigurationError
from wharfinger.upstream.key_files import load_pair

_BLOCK = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_KEY = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----")

_SEQUENCE, _VERSION, _UTC_TIME, _GENERALIZED_TIME = 0x30, 0xA0, 0x17, 0x18
_LONG_FORM = 0x80
_HALF_CENTURY = 50
"""A two-digit year from here on is of the 1900s (RFC 5280, 4.1.2.5.1)."""


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
    try:
        until = valid_until(ssl.PEM_cert_to_DER_cert(found[0]))
    except (ValueError, IndexError):
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


def valid_until(der: bytes) -> float:
    """The end date of a certificate as Unix time. Raises `ValueError` or `IndexError` for what is no certificate."""
    signed = _content(_content(der, _SEQUENCE)[0], _SEQUENCE)[0]
    if signed[0] == _VERSION:
        signed = _content(signed, _VERSION)[1]
    for _ in range(3):  # serial number, algorithm, issuer
        signed = _content(signed, signed[0])[1]
    validity = _content(signed, _SEQUENCE)[0]
    end = _content(validity, validity[0])[1]
    return _seconds(end[0], _content(end, end[0])[0].decode("ascii"))


def _content(der: bytes, tag: int) -> tuple[bytes, bytes]:
    """The content of the first element, and what follows it."""
    if der[0] != tag:
        raise ValueError("another element was expected")
    length, begin = der[1], 2
    if length & _LONG_FORM:
        begin += length & ~_LONG_FORM
        length = int.from_bytes(der[2:begin], "big")
    if begin + length > len(der):
        raise ValueError("is cut off")
    return der[begin : begin + length], der[begin + length :]


def _seconds(tag: int, text: str) -> float:
    if tag == _UTC_TIME:
        text = f"{'19' if int(text[:2]) >= _HALF_CENTURY else '20'}{text}"
    elif tag != _GENERALIZED_TIME:
        raise ValueError("no date was found")
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp()
