"""A certificate and its key into a TLS context: OpenSSL takes them from files only.

So they are put into memory that has a file's name (Linux), else into private files that are removed at once.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from wharfinger.errors import ConfigurationError


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
    """The name of a file with the content."""
    memory = hasattr(os, "memfd_create") and os.path.isdir("/proc/self/fd")
    name, remove = (_in_memory if memory else _on_disk)(content)
    try:
        yield name
    finally:
        remove()
