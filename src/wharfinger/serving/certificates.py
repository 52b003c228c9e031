"""Certificates and keys as PEM: read from files with one clear line for what is wrong, or made and signed by itself.

cryptography, which comes with the etcd client, makes certificates and reads names from them; `ssl` does the rest
(`tls.py`). It is imported late, because most processes serve plain HTTP.
"""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import os
import ssl
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from wharfinger.apiserver.tls import blocks
from wharfinger.errors import UsageError

if TYPE_CHECKING:
    from cryptography import x509

LIFE = datetime.timedelta(days=365)
"""Of a self-signed certificate, as kube-scheduler's."""
SKEW = datetime.timedelta(minutes=10)
"""A certificate is valid since so long before it was made: clocks of clients differ."""


class MaySignNothing(ValueError):
    """A certificate by which no other may be signed; says why."""


class Pem(NamedTuple):
    """A certificate and its key, as text of PEM files."""

    cert: bytes
    key: bytes


def self_signed(
    component: str,
    hosts: Iterable[str],
    now: datetime.datetime,
    *,
    also_client: bool = False,
    life: datetime.timedelta = LIFE,
) -> Pem:
    """Make a certificate for these names and addresses, signed by its own key (ECDSA, P-256); it may sign others.

    `also_client`: whether a client may show it, too.
    """
    return _made(component, hosts, (now - SKEW, now + life), also_client=also_client)


def signed_by(
    authority: Pem, component: str, hosts: Iterable[str], now: datetime.datetime, life: datetime.timedelta
) -> Pem:
    """Make a certificate that servers and clients may show, signed by an authority. Raises `ValueError` for no such.

    `MaySignNothing`: for one that is none, or ends before.
    """
    return _made(component, hosts, (now - SKEW, now + life), also_client=True, authority=authority)


def _made(
    component: str,
    hosts: Iterable[str],
    valid: tuple[datetime.datetime, datetime.datetime],
    *,
    also_client: bool,
    authority: Pem | None = None,
) -> Pem:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, component)])
    signer: Any = key
    if authority is not None:
        signs = x509.load_pem_x509_certificate(authority.cert)
        issuer = signs.subject
        signer = serialization.load_pem_private_key(authority.key, password=None)
        if signer.public_key() != signs.public_key():
            raise ValueError("the key is another certificate's")
        _check_signs(signs, valid[1])
    usages = [ExtendedKeyUsageOID.SERVER_AUTH, *([ExtendedKeyUsageOID.CLIENT_AUTH] if also_client else [])]
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(valid[0])
        .not_valid_after(valid[1])
        # Of one that signs itself: clients may trust it as it is.
        .add_extension(x509.BasicConstraints(ca=authority is None, path_length=None), critical=True)
        .add_extension(_key_usage(signs=authority is None), critical=True)
        .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
    )
    if names := [_general_name(host) for host in hosts]:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    encoding = serialization.Encoding.PEM
    private = key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return Pem(builder.sign(signer, hashes.SHA256()).public_bytes(encoding), private)


def _check_signs(authority: x509.Certificate, until: datetime.datetime) -> None:
    """Raise `MaySignNothing` unless it may sign certificates that are valid until then."""
    from cryptography import x509

    try:
        signs = authority.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        signs = False
    if not signs:
        raise MaySignNothing("the certificate is none of an authority")
    if authority.not_valid_after_utc < until.replace(microsecond=0):  # certificates have whole seconds
        raise MaySignNothing(
            f"the authority's certificate ends on {authority.not_valid_after_utc:%Y-%m-%d}, before these"
        )


def _key_usage(*, signs: bool) -> x509.KeyUsage:
    """Clients that check strictly want an authority's to say that it signs certificates."""
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(host: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def kept_in(folder: Path, pair_name: str, made: Pem, option: str = "--cert-dir") -> tuple[Path, Path]:
    """The files of a self-signed pair in the folder, written if they are not there yet. Raises `UsageError`."""
    cert, key = folder / f"{pair_name}.crt", folder / f"{pair_name}.key"
    if cert.is_file() and key.is_file():
        return cert, key
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path, text, mode in ((key, made.key, 0o600), (cert, made.cert, 0o644)):
            _replace(path, text, mode)
    except OSError as error:
        raise UsageError(f"{option}: cannot write {error.filename or folder} ({error.strerror or error})") from error
    return cert, key


def _replace(path: Path, text: bytes, mode: int) -> None:
    """Write a file so that no reader ever sees a part of it."""
    descriptor, unfinished = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text)
        os.chmod(unfinished, mode)
        os.replace(unfinished, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(unfinished)
        raise


def load_files(context: ssl.SSLContext, cert: Path, key: Path, options: tuple[str, str]) -> None:
    """Serve with the pair in two files. Raises `UsageError`, with the names of the two options."""
    for option, path in zip(options, (cert, key), strict=True):
        _readable(path, option)
    try:
        context.load_cert_chain(cert, key, password=_no_password)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise UsageError(f"{options[1]}: {key} is not the key of the certificate {cert}") from error
        if _is_certificate(cert):
            raise UsageError(f"{options[1]}: {key} has no private key without a passphrase, as PEM") from error
        raise UsageError(f"{options[0]}: {cert} has no certificate, as PEM") from error


def load_authorities(context: ssl.SSLContext, path: Path) -> None:
    """Ask clients for a certificate that one of these authorities signed. Raises `UsageError`."""
    _readable(path, "--client-ca-file")
    try:
        context.load_verify_locations(path)
    except ssl.SSLError as error:
        raise UsageError(f"--client-ca-file: {path} has no certificates, as PEM") from error
    context.verify_mode = ssl.CERT_OPTIONAL


def load_published(context: ssl.SSLContext, authorities: str) -> None:
    """The same with authorities as PEM text (as an API server publishes them). Raises `UsageError`."""
    try:
        context.load_verify_locations(
            cadata="\n".join(blocks(authorities.encode()))
        )  # notes between may be in any script
    except (ssl.SSLError, ValueError) as error:
        raise UsageError("the client authorities that the cluster publishes are no certificates, as PEM") from error
    context.verify_mode = ssl.CERT_OPTIONAL


def names_in(cert: Path) -> tuple[str, ...]:
    """The server names and addresses in a certificate, lower case: the alternative names, else the common name."""
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    certificate = x509.load_pem_x509_certificates(cert.read_bytes())[0]
    try:
        alternative = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        common = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        return tuple(str(one.value).lower() for one in common)
    names = alternative.get_values_for_type(x509.DNSName)
    addresses = alternative.get_values_for_type(x509.IPAddress)
    return tuple(str(name).lower() for name in (*names, *addresses))


def _readable(path: Path, option: str) -> None:
    try:
        with path.open("rb"):
            pass
    except OSError as error:
        raise UsageError(f"{option}: cannot read {path} ({error.strerror or error})") from error


def _is_certificate(path: Path) -> bool:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(path)
    except ssl.SSLError:
        return False
    return True


def _no_password() -> str:
    """Answer instead of OpenSSL's own question, which would wait on a terminal."""
    return ""
