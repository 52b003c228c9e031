"""TLS for an API server: contexts, authorities that are trusted, and the certificate and key that are shown.

Go's rules are followed where they differ from OpenSSL's, because kubeconfigs are made for Go's clients. The name
that the server's certificate must have (`Access.tls_server_name`) does not belong to a context: it goes to each
connection as `server_hostname`. Errors never have any of a PEM's content.
"""

from __future__ import annotations

import os
import re
import ssl
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from functools import lru_cache

from wharfinger.apiserver.credentials import Access, ApiIdentity
from wharfinger.errors import ConfigurationError, UpstreamDenied

_BLOCK = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_KEY = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----")


class _Encrypted(Exception):
    """OpenSSL asks for a passphrase, which a process without a terminal must not wait for."""


def load_pair(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Show the certificate (PEM, with its chain) to servers. Blocks.

    Raises `ConfigurationError`, whose text follows the name of the certificate's field.
    """
    with ExitStack() as opened:
        try:
            shown = opened.enter_context(_in_file(certificate))
            context.load_cert_chain(shown, opened.enter_context(_in_file(key)), password=_no_passphrase)
        except _Encrypted:
            raise ConfigurationError(
                "has a key with a passphrase; write the key without: openssl pkey -in OLD"
            ) from None
        except ssl.SSLError as error:
            raise ConfigurationError(_explained(error)) from None
        except OSError as error:
            raise ConfigurationError(f"cannot be given to OpenSSL: {error.strerror}; is $TMPDIR writable?") from error


def _explained(error: ssl.SSLError) -> str:
    if error.reason in {"KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH"}:
        return "does not fit its key; both must come from the same request"
    return f"or its key is damaged ({error.reason or 'no PEM'}); copy both files again"


def _no_passphrase() -> str:
    raise _Encrypted


def _in_memory(content: bytes) -> tuple[str, Callable[[], None]]:
    descriptor = os.memfd_create("pem", os.MFD_CLOEXEC)
    with open(descriptor, "wb", closefd=False) as file:
        file.write(content)
    return f"/proc/self/fd/{descriptor}", lambda: os.close(descriptor)


def _on_disk(content: bytes) -> tuple[str, Callable[[], None]]:
    descriptor, name = tempfile.mkstemp(prefix="wharfinger-")  # mode 0600
    with open(descriptor, "wb") as file:
        file.write(content)
    return name, lambda: os.unlink(name)


@contextmanager
def _in_file(content: bytes) -> Iterator[str]:
    """The name of a file with the content: OpenSSL takes certificates and keys from files only.

    On Linux the file lies in memory. Elsewhere it is private and removed at once.
    """
    memory = hasattr(os, "memfd_create") and os.path.isdir("/proc/self/fd")
    name, remove = (_in_memory if memory else _on_disk)(content)
    try:
        yield name
    finally:
        remove()


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


def context(access: Access, identity: ApiIdentity) -> ssl.SSLContext:
    """A context for connections to the server as this identity. At least TLS 1.2.

    It is the same object while authorities and certificate are the same, so that connections are reused. Blocks for
    some milliseconds, or about a tenth of a second where the system's authorities are trusted, when it is made. Raises
    `ConfigurationError` for authorities, and `UpstreamDenied` for a certificate, that OpenSSL cannot use.
    """
    try:
        return _made(access.verify, access.ca, identity.certificate, identity.key)
    except _Unusable as error:
        raise UpstreamDenied(f"the client certificate for {access.server} {error}") from error


class _Unusable(Exception):
    """OpenSSL refuses a client certificate."""


@lru_cache(maxsize=4)
def _made(verify: bool, authorities: bytes, certificate: bytes, key: bytes) -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    made.set_alpn_protocols(["http/1.1"])
    if verify:
        _trust(made, authorities)
    else:
        made.check_hostname = False
        made.verify_mode = ssl.CERT_NONE
    if certificate:
        try:
            load_pair(made, certificate, key)
        except ConfigurationError as error:
            raise _Unusable(str(error)) from error
    return made


def _trust(made: ssl.SSLContext, authorities: bytes) -> None:
    # Go looks at alternative names only, and trusts what stands among the authorities though it is not self-signed.
    made.hostname_checks_common_name = False
    made.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if not authorities:
        made.load_default_certs(ssl.Purpose.SERVER_AUTH)
        return
    try:
        made.load_verify_locations(cadata="\n".join(blocks(authorities)))
    except (ssl.SSLError, ValueError):
        raise ConfigurationError("the certificate authorities of the API server cannot be used by OpenSSL") from None
