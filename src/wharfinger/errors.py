"""Everything wharfinger raises on purpose.

Expected outcomes (refused, contended, gone) are values, never exceptions. What stands here should
not happen, or comes from the outside (I/O); foreign errors are mapped at the edge and chained.

::

    WharfingerError                 one line for a user, says what to do
    ├── UsageError                  the caller asked for something that cannot be (exit code 2)
    ├── NotFound                    the object that is meant does not exist
    ├── DoesNotApply                what is asked for means nothing as things are: nothing to promote, to undo
    ├── AlreadyExists               another object has the name of one that is to be created
    ├── ConfigurationError          a setting is wrong
    │   └── InvalidConfiguration    a KubeSchedulerConfiguration is wrong; has a line for each problem (exit code 2)
    ├── InvalidObject               bytes that are no object we understand
    ├── PluginError                 a scheduling plugin raised, or broke its contract
    ├── InstallationMismatch        etcd belongs to another cluster name or Temporal namespace
    ├── ServerError                 an embedded server cannot be had or does not start
    ├── StoreError                  etcd, or what stands for it
    │   ├── Unavailable             no answer in time; `maybe_applied` for writes
    │   │   └── StoreAnswerTooLarge more bytes than are read of one answer
    │   ├── Compacted               the revision asked for is no longer kept
    │   ├── RevisionFuture          the revision asked for does not exist yet
    │   ├── RevisionWentBack        etcd shows an older state than it did (restored backup)
    │   ├── AccessDenied            wrong user, password, certificate or permission
    │   │   └── UserWanted          etcd wants a user, and none is named
    │   ├── RequestTooLarge         one value or transaction beyond etcd's limits
    │   └── LeaseLost               a lease expired or was revoked
    └── UpstreamError               the Kubernetes API server whose pods are scheduled
        ├── UpstreamUnavailable     no answer, 429 or 5xx; `maybe_applied` for writes
        │   └── WatchEnded          a watch was ended in good order: go on from where it was
        ├── UpstreamDenied          it does not accept who we say we are
        ├── HistoryGone             changes since that revision are no longer kept
        └── LeaderElectionLost      another scheduler may bind now
"""

from __future__ import annotations

from collections.abc import Iterable


class WharfingerError(Exception):
    """Base of all errors raised on purpose; `str()` is one line for a user."""


class UsageError(WharfingerError):
    """The caller asked for something that cannot be: wrong argument, unknown name."""


class NotFound(WharfingerError):
    """The object that is meant does not exist."""


class DoesNotApply(WharfingerError):
    """What is asked for means nothing as things are; the text says why, and what would work."""


class AlreadyExists(WharfingerError):
    """Another object has the name of one that is to be created."""


class ConfigurationError(WharfingerError):
    """A setting is wrong; the text names it and the reason."""


class InvalidConfiguration(ConfigurationError):
    """A KubeSchedulerConfiguration is wrong. `problems`: a line each, the path of the field and the reason."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(self.problems))


class InvalidObject(WharfingerError):
    """Bytes or a mapping that are no object we understand; `str()` is the reason."""


class PluginError(WharfingerError):
    """A scheduling plugin raised, or answered outside its contract."""

    def __init__(self, plugin: str, point: str, reason: str) -> None:
        super().__init__(f"plugin {plugin} failed in {point}: {reason}")
        self.plugin = plugin
        self.point = point
        self.reason = reason


class InstallationMismatch(WharfingerError):
    """etcd was set up for another cluster name or Temporal namespace than ours."""


class ServerError(WharfingerError):
    """An embedded server (etcd, Temporal) cannot be obtained or does not start."""


class StoreError(WharfingerError):
    """Base of everything the registry raises."""


class Unavailable(StoreError):
    """No endpoint answered in time.

    For writes `maybe_applied` says whether the write may have happened: then only a read shows it.
    """

    def __init__(self, message: str, *, maybe_applied: bool = False) -> None:
        super().__init__(message)
        self.maybe_applied = maybe_applied


class Compacted(StoreError):
    """The revision asked for is no longer kept; list again."""

    def __init__(self, message: str, *, compact_revision: int = 0) -> None:
        super().__init__(message)
        self.compact_revision = compact_revision


class RevisionFuture(StoreError):
    """The revision asked for does not exist yet."""


class RevisionWentBack(StoreError):
    """etcd shows an older state than it did before: it was restored from a backup."""


class AccessDenied(StoreError):
    """Wrong user, password, certificate or missing permission."""


class UserWanted(AccessDenied):
    """etcd wants a user and a password, and none is named."""


class RequestTooLarge(StoreError):
    """A value or a transaction is beyond etcd's limits."""


class StoreAnswerTooLarge(Unavailable):
    """The server's answer has more bytes than is read of one: less has to be asked for at a time."""


class LeaseLost(StoreError):
    """The lease expired or was revoked."""


class UpstreamError(WharfingerError):
    """Base of everything that a Kubernetes API server, or the way to it, raises."""


class UpstreamUnavailable(UpstreamError):
    """The API server did not answer in time, is overloaded, or failed.

    For writes `maybe_applied` says whether the write may have happened: then only a read shows it.
    `retry_after`: seconds that the server asks to wait; None when it does not say.
    """

    def __init__(self, message: str, *, maybe_applied: bool = False, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.maybe_applied = maybe_applied
        self.retry_after = retry_after


class WatchEnded(UpstreamUnavailable):
    """The API server ended a watch in good order, as it does every few minutes; go on from the last revision."""


class UpstreamDenied(UpstreamError):
    """The API server does not accept our credentials, also after they were read again."""


class HistoryGone(UpstreamError):
    """The API server no longer keeps the changes since the revision asked for; list again."""


class LeaderElectionLost(UpstreamError):
    """The Lease of the API could not be renewed in time, or another scheduler has it: the process ends."""
