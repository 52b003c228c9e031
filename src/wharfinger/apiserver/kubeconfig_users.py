"""The user of a kubeconfig's context as credentials: which fields count, and what is refused.

Precedence is client-go's: what is written in place before what a file has, a tokenFile before a token, and both before
a plugin.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wharfinger.apiserver.credential_files import REREAD, FileSource, checked_token, open_to_all, read_token, shown_path
from wharfinger.apiserver.credentials import (
    ApiClocks,
    ApiIdentity,
    Credentials,
    HeldIdentity,
    RenewedCredentials,
)
from wharfinger.apiserver.exec_plugin import RunPlugin, plugin_of
from wharfinger.apiserver.kubeconfig_entries import KubeconfigEntry
from wharfinger.apiserver.tls import check_pair, check_valid
from wharfinger.errors import ConfigurationError

log = logging.getLogger(__name__)

_IMPERSONATION = ("as", "as-uid", "as-groups", "as-user-extra")
_FILES = ("client-certificate", "client-key")
_SECRETS = ("token", "password", "client-key-data")
_IN_PLACE = ("token", "tokenFile", "username", "password", "client-certificate", "client-certificate-data")


def has_credentials(user: KubeconfigEntry) -> bool:
    """Whether the user is anyone; an empty one is anonymous."""
    return user.has("exec") or any(user.has(name) for name in _IN_PLACE)


def credentials_of(
    user: KubeconfigEntry,
    cluster: Mapping[str, Any],
    environment: Mapping[str, str],
    run: RunPlugin,
    clocks: ApiClocks,
) -> Credentials:
    """Credentials of a user. Files are read now; a plugin is run at the first use.

    `cluster`, `environment`: for a plugin. Blocks. Raises `ConfigurationError`.
    """
    _refuse(user)
    plugin = user.part("exec")
    if any(user.has(name) for name in _IN_PLACE):
        if plugin is not None:
            log.warning("kubeconfig_exec_ignored reason=other_credentials_are_given field=%r", user.place("exec"))
    elif plugin is not None:
        return RenewedCredentials(plugin_of(plugin, cluster, environment, run, clocks), clocks)
    stored = _StoredUser(user, clocks)
    _warn(user)
    return RenewedCredentials(
        FileSource(f"kubeconfig {shown_path(user.file)}, {user.title}", stored.read), clocks, first=stored.read_first()
    )


@dataclass(frozen=True, slots=True)
class _StoredUser:
    """Reads what is written in the kubeconfig and in the files that it names. Raises `ConfigurationError`."""

    user: KubeconfigEntry
    clocks: ApiClocks

    def read_first(self) -> HeldIdentity:
        """As `read`, but a token in place is used until the tokenFile can be read."""
        token_file = self.user.path("tokenFile")
        if token_file is None or not self.user.has("token"):
            return self.read()
        try:
            return self.read()
        except ConfigurationError as error:
            held = self._read(None)
            log.warning("kubeconfig_token_file_unread effect=token_of_the_kubeconfig_used error=%r", str(error))
            return held

    def read(self) -> HeldIdentity:
        return self._read(self.user.path("tokenFile"))

    def _read(self, token_file: Path | None) -> HeldIdentity:
        certificate, key, expires = self._certificate()
        identity = ApiIdentity(
            token=self._token(token_file),
            username=self.user.text("username"),
            password=self.user.text("password"),
            certificate=certificate,
            key=key,
        )
        has_files = self.user.has("tokenFile") or any(self.user.has(name) for name in _FILES)
        return HeldIdentity(identity, reread_after=REREAD if has_files else math.inf, expires_at=expires)

    def _token(self, token_file: Path | None) -> str:
        name = "tokenFile" if token_file else "token"
        in_place = self.user.text("token")
        try:
            return read_token(token_file) if token_file else checked_token(in_place)
        except ConfigurationError as error:
            raise self.user.error(name, error) from error

    def _certificate(self) -> tuple[bytes, bytes, float]:
        """The certificate, its key, and until when it is valid."""
        at, certificate = self.user.content("client-certificate")
        key_at, key = self.user.content("client-key")
        if not at and not key_at:
            return b"", b"", math.inf
        if not at:
            raise self.user.error(key_at, "is there without a client-certificate; name its certificate, too")
        if not key_at:
            raise self.user.error(at, "is there without a client-key; name its key, too")
        path = self.user.path("client-certificate") if at == "client-certificate" else None
        try:
            until = check_pair(certificate, key)
            check_valid(until, self.clocks.now())
        except ConfigurationError as error:
            raise self.user.error(at, f"{f'file {shown_path(path)} ' if path else ''}{error}") from error
        return certificate, key, until


def _refuse(user: KubeconfigEntry) -> None:
    """Raise `ConfigurationError` for ways to say who we are that are not supported, or exclude each other."""
    for name in _IMPERSONATION:
        if user.has(name):
            raise user.error(name, "impersonation is not supported; use credentials of the identity itself")
    if user.has("auth-provider"):
        raise user.error("auth-provider", "was removed from Kubernetes; use the provider's exec plugin")
    username = user.text("username")
    if ":" in username:
        raise user.error("username", "has a colon, which basic authentication cannot send; use another user")
    if username or user.text("password"):
        for name in ("token", "tokenFile"):
            if user.has(name):
                raise user.error(name, "is there beside username or password; remove one of them")


def _warn(user: KubeconfigEntry) -> None:
    for name in _FILES:
        if user.has(name) and user.has(f"{name}-data"):
            log.warning("kubeconfig_file_ignored field=%r used=%s-data", user.place(name), name)
    if any(user.has(name) for name in _SECRETS) and open_to_all(user.file):
        log.warning("kubeconfig_open_to_all effect=every_local_user_can_read_secrets do=chmod_600 file=%s", user.file)
