"""Who a caller is, and which pages it may read.

A caller is known by a client certificate, by a token of a file, or by a token that the API server reviews. The order is
kube-scheduler's. A caller without credentials is `ANONYMOUS`; one with wrong credentials is refused. A token is hashed
when it comes in, compared in constant time, and is in no log line and no message.

A caller may read a page by its group, by the file that has its token, or because the cluster allows it: a
SubjectAccessReview asks for the path and the verb. Without an answer nothing is allowed. Answers of the API server are
kept for some seconds, so that a scrape every few seconds costs no request each.
"""

from __future__ import annotations

import csv
import hashlib
import hmac
import json
import logging
import secrets
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wharfinger.apiserver.client import ACCESS_REVIEWS, TOKEN_REVIEWS, ApiClient
from wharfinger.apiserver.credential_files import open_to_all
from wharfinger.errors import UpstreamError, UpstreamUnavailable, UsageError
from wharfinger.serving.file_changes import FileChanges
from wharfinger.serving.options import AuthenticationOptions, AuthorizationOptions
from wharfinger.serving.shared_answers import SharedAnswers

MOST_ANSWERS = 1000
MOST_REQUESTS = 10
"""Requests at a time: made-up tokens must not become a flood at the API server."""
MOST_WAITING = 100
"""Requests that are under way or wait for it: a caller may be gone long before its turn, so connections bound none."""


class KeyedHash:
    """Hashes with a key that only this process has, so that neither equality nor timing of hashes says anything."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)

    def __call__(self, *parts: str) -> bytes:
        """The hash of the parts, each with its length, 32 bytes."""
        hashed = hashlib.blake2b(key=self._key, digest_size=32)
        for part in parts:
            text = part.encode("utf-8", "surrogateescape")
            hashed.update(len(text).to_bytes(8, "big") + text)
        return hashed.digest()


def review_cache(clock: Callable[[], float], *, most: int = MOST_ANSWERS) -> SharedAnswers[bytes, Any]:
    """Reviews by the API server. Its `get` raises `UpstreamUnavailable` when too many requests wait."""
    return SharedAnswers(
        clock,
        most=most,
        at_once=MOST_REQUESTS,
        most_waiting=MOST_WAITING,
        full=lambda: UpstreamUnavailable(f"{MOST_WAITING} other reviews wait for the API server"),
    )


log = logging.getLogger(__name__)

AUTHENTICATED = "system:authenticated"
TELLTALE = 16
"""Characters at the beginning of a token by which a text is known to have some of it."""
UNREVIEWED = "the API server did not review the credentials: try again"


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sent a request."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, Sequence[str]] = field(default_factory=dict)
    by_certificate: bool = False
    by_token_file: bool = False


ANONYMOUS = Caller("system:anonymous", groups=("system:unauthenticated",))


@dataclass(frozen=True, slots=True)
class Barred:
    """Why a request is not served: the status, and kube-scheduler's reason and message."""

    code: int
    reason: str
    message: str


UNAUTHORIZED = Barred(401, "Unauthorized", "Unauthorized")


class StaticTokens:
    """The tokens of `--static-token-file`; read again when the file is replaced."""

    def __init__(self, path: Path, hash_: KeyedHash, clock: Callable[[], float]) -> None:
        """`clock`: monotonic seconds. Raises `UsageError`."""
        self._path = path
        self._hash = hash_
        self._changes = FileChanges([path], clock)
        self._callers = self._read()

    def find(self, token: str) -> Caller | None:
        """Whose token it is. Takes as long for every token of one length."""
        return self.holder(self._hash(token))

    def holder(self, hashed: bytes) -> Caller | None:
        """Whose token has this hash, as the file is now."""
        if self._changes.any():
            try:
                self._callers = self._read()
            except UsageError as error:
                log.warning("static_tokens_kept error=%r", str(error))
        found = None
        for known, caller in self._callers:
            if hmac.compare_digest(known, hashed):
                found = caller
        return found

    def _read(self) -> list[tuple[bytes, Caller]]:
        try:
            with self._path.open(encoding="utf-8", newline="") as file:
                rows = [row for row in csv.reader(file, skipinitialspace=True) if row]
        except OSError as error:
            raise UsageError(f"--static-token-file: cannot read {self._path} ({error.strerror or error})") from error
        except (UnicodeDecodeError, csv.Error):  # their text would show what is in the file
            raise UsageError(f"--static-token-file: {self._path} is no CSV") from None
        if open_to_all(self._path):
            log.warning(
                "static_tokens_open_to_all effect=all_local_users_read_them do=chmod_600_or_defaultMode_0400 file=%s",
                self._path,
            )
        callers: dict[bytes, Caller] = {}
        for number, row in enumerate(rows, start=1):
            callers |= self._caller(number, [part.strip() for part in row])
        return list(callers.items())

    def _caller(self, number: int, row: list[str]) -> dict[bytes, Caller]:
        if len(row) < 3 or not row[0] or not row[1]:
            raise UsageError(f'--static-token-file: entry {number} of {self._path} is not TOKEN,USER,UID[,"GROUP,..."]')
        groups = tuple(filter(None, row[3].split(","))) if len(row) > 3 else ()
        return {self._hash(row[0]): Caller(row[1], row[2], (*groups, AUTHENTICATED), by_token_file=True)}


class Authenticator:
    """Finds out who a caller is."""

    def __init__(
        self,
        options: AuthenticationOptions,
        apiserver: ApiClient | None,
        *,
        clock: Callable[[], float],
        utc_seconds: Callable[[], float] = time.time,
    ) -> None:
        """`apiserver`: reviews tokens; None = only those of the file are known. Raises `UsageError`."""
        self._apiserver = apiserver
        self._ttl = options.token_ttl
        self._utc_seconds = utc_seconds
        self._hash = KeyedHash()
        self._cache: SharedAnswers[bytes, Caller | Barred] = review_cache(clock)
        file = options.static_token_file
        self._static = StaticTokens(file, self._hash, clock) if file is not None else None

    async def caller(self, certificate: Mapping[str, Any] | None, authorization: str) -> Caller | Barred:
        """Who it is.

        Args:
            certificate: Of the client, as `ssl` gives a verified one; None or empty for none.
            authorization: The header's value; empty for none.
        """
        named = self._named_by(certificate) if certificate else None
        if named is not None:
            return named
        token = bearer_token(authorization)
        if not token:
            return ANONYMOUS
        found = self._static.find(token) if self._static is not None else None
        if found is not None:
            return found
        if self._apiserver is None:
            return UNAUTHORIZED
        apiserver = self._apiserver
        try:
            return await self._cache.get(self._hash(token), lambda: self._review(apiserver, token))
        except UpstreamError as error:
            said = str(error)
            if token[:TELLTALE] in said:  # who answers with an error may repeat what was sent, cut anywhere
                said = "the answer repeats the token"
            log.warning("token_review_failed error=%r", said)
            return Barred(503, "ServiceUnavailable", UNREVIEWED)

    def hashed(self, token: str) -> bytes:
        """What may be kept of a token, for `holder`; it is good in this process only."""
        return self._hash(token)

    def holder(self, hashed: bytes) -> Caller | None:
        """Who has the token of this hash by the token file as it is now; None once it was taken out."""
        return self._static.holder(hashed) if self._static is not None else None

    def _named_by(self, certificate: Mapping[str, Any]) -> Caller | None:
        """The common name is the user, organisations are groups. The connection may outlive the certificate."""
        if ssl.cert_time_to_seconds(certificate["notAfter"]) < self._utc_seconds():
            return None
        subject = [pair for names in certificate.get("subject", ()) for pair in names]
        name = next((value for key, value in subject if key == "commonName"), "")
        groups = tuple(value for key, value in subject if key == "organizationName")
        return Caller(name, groups=(*groups, AUTHENTICATED), by_certificate=True) if name else None

    async def _review(self, apiserver: ApiClient, token: str) -> tuple[Caller | Barred, float]:
        """Ask the API server. Raises `UpstreamError`."""
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        answer = await apiserver.create(TOKEN_REVIEWS, body)
        if not answer.done or answer.object is None:
            raise UpstreamError(f"TokenReview: status {answer.code} {answer.reason}")  # its message may have the token
        status = answer.object.get("status") or {}
        user = status.get("user") or {}
        if status.get("authenticated") is not True or not user.get("username"):
            return UNAUTHORIZED, self._ttl
        groups, extra = tuple(user.get("groups") or ()), dict(user.get("extra") or {})
        return Caller(user["username"], user.get("uid") or "", groups, extra), self._ttl


def bearer_token(authorization: str) -> str:
    """The token of an `Authorization` header; empty when it has none."""
    scheme, _, rest = authorization.strip().partition(" ")
    return rest.split(" ", 1)[0] if scheme.lower() == "bearer" else ""


_UNSAFE = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


class Authorizer:
    """Decides for one server."""

    def __init__(
        self, options: AuthorizationOptions, apiserver: ApiClient | None, *, clock: Callable[[], float]
    ) -> None:
        """`apiserver`: the cluster; None = there is none to ask. `clock`: monotonic seconds."""
        self._options = options
        self._apiserver = apiserver
        self._hash = KeyedHash()
        self._cache: SharedAnswers[bytes, Barred | None] = review_cache(clock)

    async def bars(self, caller: Caller, path: str, verb: str) -> Barred | None:
        """Why the caller may not read the path; None when it may. `verb`: the method, lower case."""
        if caller.by_token_file or (caller.by_certificate and self._options.any_certificate):
            return None
        if not set(self._options.always_allow_groups).isdisjoint(caller.groups):
            return None
        apiserver = self._apiserver
        if apiserver is None:
            return UNAUTHORIZED if caller is ANONYMOUS else _forbidden(caller, path, verb)
        key = self._hash(json.dumps([_user(caller), path, verb], sort_keys=True))
        try:
            return await self._cache.get(key, lambda: self._review(apiserver, caller, path, verb))
        except UpstreamError as error:
            log.warning("access_review_failed user=%r path=%r error=%r", caller.name, path, str(error))
            return Barred(503, "ServiceUnavailable", UNREVIEWED)

    async def _review(self, apiserver: ApiClient, caller: Caller, path: str, verb: str) -> tuple[Barred | None, float]:
        """Ask the cluster. Raises `UpstreamError`."""
        spec = {**_user(caller), "nonResourceAttributes": {"path": path, "verb": verb}}
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        answer = await apiserver.create(ACCESS_REVIEWS, body)
        if not answer.done or answer.object is None:
            raise UpstreamError(f"SubjectAccessReview: status {answer.code} {answer.reason}: {answer.message}")
        status = answer.object.get("status") or {}
        if status.get("allowed") is True and status.get("denied") is not True:
            return None, self._options.allowed_ttl
        return _forbidden(caller, path, verb), self._options.denied_ttl


def _user(caller: Caller) -> dict[str, Any]:
    """The user as a review spells it."""
    extra = {name: list(values) for name, values in caller.extra.items()}
    return {"user": caller.name, "uid": caller.uid, "groups": list(caller.groups), "extra": extra}


def _forbidden(caller: Caller, path: str, verb: str) -> Barred:
    """kube-scheduler's message: without anything that a browser could take for HTML."""
    text = f'forbidden: User "{caller.name}" cannot {verb} path "{path}"'
    return Barred(403, "Forbidden", text.translate(_UNSAFE))
