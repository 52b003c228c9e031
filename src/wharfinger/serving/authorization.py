"""Whether a caller may read a page: by its group, by the file that has its token, or because the cluster says so.

The cluster is asked by SubjectAccessReview for the path and the verb, as kube-scheduler does. Without an answer
nothing is allowed.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

from wharfinger.apiserver.client import ACCESS_REVIEWS, Upstream
from wharfinger.errors import UpstreamError
from wharfinger.serving.authentication import ANONYMOUS, UNAUTHORIZED, UNREVIEWED, Barred, Caller
from wharfinger.serving.options import AuthorizationOptions
from wharfinger.serving.review_cache import KeyedHash, ReviewCache

log = logging.getLogger(__name__)

_UNSAFE = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


class Authorizer:
    """Decides for one server."""

    def __init__(self, options: AuthorizationOptions, upstream: Upstream | None, *, clock: Callable[[], float]) -> None:
        """`upstream`: the cluster; None = there is none to ask. `clock`: monotonic seconds."""
        self._options = options
        self._upstream = upstream
        self._hash = KeyedHash()
        self._cache: ReviewCache[Barred | None] = ReviewCache(clock)

    async def bars(self, caller: Caller, path: str, verb: str) -> Barred | None:
        """Why the caller may not read the path; None when it may. `verb`: the method, lower case."""
        if caller.by_token_file or (caller.by_certificate and self._options.any_certificate):
            return None
        if not set(self._options.always_allow_groups).isdisjoint(caller.groups):
            return None
        upstream = self._upstream
        if upstream is None:
            return UNAUTHORIZED if caller is ANONYMOUS else _forbidden(caller, path, verb)
        key = self._hash(json.dumps([_user(caller), path, verb], sort_keys=True))
        try:
            return await self._cache.get(key, lambda: self._review(upstream, caller, path, verb))
        except UpstreamError as error:
            log.warning("access_review_failed user=%r path=%r error=%r", caller.name, path, str(error))
            return Barred(503, "ServiceUnavailable", UNREVIEWED)

    async def _review(self, upstream: Upstream, caller: Caller, path: str, verb: str) -> tuple[Barred | None, float]:
        """Ask the cluster. Raises `UpstreamError`."""
        spec = {**_user(caller), "nonResourceAttributes": {"path": path, "verb": verb}}
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        answer = await upstream.create(ACCESS_REVIEWS, body)
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
