"""TLS contexts for an API server: whom we trust, and the certificate that we show.

Go's rules are followed where they differ from OpenSSL's, because kubeconfigs are made for Go's clients. The name
that the server's certificate must have (`Access.tls_server_name`) is no matter of a context: it goes to each
connection as `server_hostname`.
"""

from __future__ import annotations

import ssl
from functools import lru_cache

from wharfinger.apiserver.access import Access, ApiIdentity
from wharfinger.apiserver.certificates import blocks
from wharfinger.apiserver.key_files import load_pair
from wharfinger.errors import ConfigurationError, UpstreamDenied


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
