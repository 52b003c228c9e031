"""Who a caller is: a client certificate, a token of a file, or a token that the API server reviews.

The order is kube-scheduler's. A caller without credentials is `ANONYMOUS`; one with wrong credentials is refused. A
token is hashed when it comes in, compared in constant time, and is in no log line and no message.
"""

from __future__ import annotations

import csv
import hmac
import logging
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wharfinger.apiserver.client import TOKEN_REVIEWS, Upstream
from wharfinger.apiserver.credential_files import open_to_all
from wharfinger.errors import UpstreamError, UsageError
from wharfinger.serving.file_changes import FileChanges
from wharfinger.serving.options import AuthenticationOptions
from wharfinger.serving.review_cache import KeyedHash, ReviewCache

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
        upstream: Upstream | None,
        *,
        clock: Callable[[], float],
        utc_seconds: Callable[[], float] = time.time,
    ) -> None:
        """`upstream`: reviews tokens; None = only those of the file are known. Raises `UsageError`."""
        self._upstream = upstream
        self._ttl = options.token_ttl
        self._utc_seconds = utc_seconds
        self._hash = KeyedHash()
        self._cache: ReviewCache[Caller | Barred] = ReviewCache(clock)
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
        if self._upstream is None:
            return UNAUTHORIZED
        upstream = self._upstream
        try:
            return await self._cache.get(self._hash(token), lambda: self._review(upstream, token))
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

    async def _review(self, upstream: Upstream, token: str) -> tuple[Caller | Barred, float]:
        """Ask the API server. Raises `UpstreamError`."""
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        answer = await upstream.create(TOKEN_REVIEWS, body)
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
