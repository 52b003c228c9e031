"""Whom we trust and who trusts us: endpoints checked, TLS contexts made, refusals explained."""

from __future__ import annotations

import socket
import ssl
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from wharfinger.errors import ConfigurationError
from wharfinger.objects.model.addresses import is_loopback
from wharfinger.settings import EtcdSettings


def endpoints(settings: EtcdSettings) -> tuple[str, ...]:
    """The endpoints, checked: what would send a password in the clear is refused, and certificates of no use."""
    found = tuple(checked(endpoint) for endpoint in settings.endpoints)
    if not found:
        raise ConfigurationError("no etcd endpoint is configured")
    plain = [endpoint for endpoint in found if endpoint.startswith("http:")]
    if plain and (settings.ca or settings.cert):
        raise ConfigurationError(
            f"etcd endpoint {plain[0]} is plain, so the certificates would not be used: name https://"
        )
    exposed = [endpoint for endpoint in plain if not is_loopback(urlsplit(endpoint).hostname or "")]
    if exposed and settings.user and not settings.allow_insecure:
        raise ConfigurationError(
            f"etcd endpoint {exposed[0]}: the password would be sent over plain http: name https://, or accept that by "
            "--allow-insecure-etcd"
        )
    return found


def checked(endpoint: str) -> str:
    """An endpoint without its trailing slash; anything but scheme, host and port is refused.

    A user in a URL would show up in logs and errors.
    """
    try:
        parts = urlsplit(endpoint)
        named = bool(parts.hostname) and parts.port != 0
    except ValueError:
        raise ConfigurationError("an etcd endpoint is no URL with a host and a numeric port") from None
    shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
    if parts.scheme not in {"http", "https"} or not named or parts.path.strip("/") or parts.query:
        raise ConfigurationError(f"etcd endpoint {shown}: expected http://HOST:PORT or https://HOST:PORT")
    if "@" in parts.netloc:
        raise ConfigurationError(f"etcd endpoint {shown}: user and password have settings of their own")
    return shown


def context(settings: EtcdSettings) -> ssl.SSLContext:
    """Certificates and host names are always verified."""
    try:
        made = ssl.create_default_context(cafile=str(settings.ca) if settings.ca else None)
        made.verify_flags &= ~ssl.VERIFY_X509_STRICT  # set since Python 3.13; etcd's own clients take such certificates
        if settings.cert:
            made.load_cert_chain(settings.cert, settings.key)
    except (OSError, ValueError) as error:
        names = ", ".join(str(path) for path in (settings.ca, settings.cert, settings.key) if path)
        raise ConfigurationError(f"cannot use the certificates for etcd ({names}): {error}") from error
    return made


def system_authorities() -> bytes | None:
    """The system's authorities as PEM, for a library that does not read them itself; None = they are in no one file."""
    paths = ssl.get_default_verify_paths()
    bundles = [Path(paths.capath) / "ca-certificates.crt"] if paths.capath else []
    for bundle in (Path(paths.cafile or paths.openssl_cafile), *bundles):
        with suppress(OSError):
            return bundle.read_bytes()
    return None


def refusal(endpoint: str, trusted: ssl.SSLContext, seconds: float) -> str | None:
    """Why a server drops us right after the handshake, if it is our certificate. Blocks up to `seconds`.

    Under TLS 1.3 a server looks at it only then, and an event loop may see the connection end before
    it sees the reason. A server that is content says nothing.
    """
    parts = urlsplit(endpoint)
    address = (parts.hostname or "", parts.port or 443)
    try:
        with (
            socket.create_connection(address, timeout=seconds) as plain,
            trusted.wrap_socket(plain, server_hostname=parts.hostname) as secure,
        ):
            secure.recv(1)
    except ssl.SSLError as error:
        return error.reason or str(error)
    except OSError:
        return None
    return None
