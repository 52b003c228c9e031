"""Promises: binds that are committed in etcd and that the Kubernetes API has not shown yet.

A promise is put by the very transaction that binds the copy of a pod. It is sent to the API server as often as it
takes, by any worker, always with the revision that it names: a pod that has changed there since cannot be bound by it.
It ends when a newer state of the pod is copied: bound, or so different that it has to be placed anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from wharfinger.objects.model.pod import PodKey


class VolumeStep(NamedTuple):
    """What has to be done for one claim of a pod before it can be bound."""

    claim: str
    """Its name, in the pod's namespace."""
    volume: str = ""
    """The volume that was chosen for it; empty = one is to be made for the node."""


@dataclass(frozen=True, slots=True)
class Promise:
    """One promised bind; its pod is in its key."""

    uid: str
    """The pod's, in the Kubernetes API."""
    revision: int
    """The resourceVersion that the pod has there: the bind is refused if it has another one."""
    node: str
    attempt: str
    """`<workflow id>@<run id>`, the annotation that the bind carries."""
    since: str
    """When it was made: RFC 3339, UTC. Promising again at another revision keeps it."""
    together: int = 0
    """How many pods the transaction bound that are sent together or not at all: a gang's; 0 = it is sent alone."""
    ready: bool = True
    """Whether it may be sent: the volumes of the pod are prepared."""
    volumes: tuple[VolumeStep, ...] = ()
    """What is to be prepared, where it is not ready yet."""
    patience: float = 600.0
    """Seconds, from `since` on, within which its volumes have to be there."""
    asked: bool = False
    """Whether the API was told of all of that."""
    expected: bool = False
    """Whether the API was told the node, in the status of the pod."""
    calls: tuple[str, ...] = ()
    """The asynchronous plugins that are still to be called, `PreBind/<plugin>`: it is not ready until they agreed."""
    call_patience: float = 0.0
    """Seconds, beyond `patience`, after which they have not agreed."""
    withdrawn: str = ""
    """Why it is given up, in words; empty = it is not. Then it is neither sent nor promised again."""
    told: str = ""
    """The refusal of the API server because of which it was given up; empty = it was for another reason."""
    mod_revision: int = field(default=0, compare=False)
    """Of its key."""

    @property
    def prepares(self) -> bool:
        """Whether PreBind has, or had, something to do before it may be sent: volumes to bind, plugins to call."""
        return bool(self.volumes) or any(call.startswith("PreBind/") for call in self.calls) or self.call_patience > 0

    def at(self, revision: int) -> Promise:
        """The same, of the pod as it is now in the API."""
        return replace(self, revision=revision)

    def given_up(self, why: str, told: str = "") -> Promise:
        """The same, withdrawn."""
        return replace(self, withdrawn=why, told=told)


@dataclass(slots=True)
class KubernetesSide:
    """What a worker has seen of the Kubernetes API's side in etcd; the informer sets it, binds and senders read it."""

    active: int = 0
    """Mod revision of the key whose presence says that this installation may bind; 0 = it may not."""
    promises: dict[PodKey, Promise] = field(default_factory=dict)
    """Those that were put with the copy of their pod, by one transaction."""
    unproven: dict[PodKey, int] = field(default_factory=dict)
    """The others, which count for nothing: the mod revision of each."""
    imported: Imported | None = None
    """How far the importer has come; None = it has never told."""
    only_copies: bool = True
    """Whether all pods are certainly copies. The web page follows etcds without a Kubernetes API, too."""
    told_at: float = 0.0
    """When this worker saw that change, by its own monotonic clock."""
    signed: bool = False
    """Whether an importer has told anything since this worker last listed etcd: what a list shows may be hours old, or
    of a backup."""


@dataclass(frozen=True, slots=True)
class Imported:
    """Up to where the copies are complete."""

    revisions: Mapping[str, int] = field(default_factory=dict)
    """By plural, the resourceVersion up to which everything is in the copies."""
    generation: int = 0
    """Grows when the API server was restored from a backup: everything was copied anew then."""
    time: str = ""
    """RFC 3339, UTC."""
    whole: bool = False
    """Whether copies of pods and nodes keep all fields, because extenders are sent them."""
    mixed: bool = False
    """Whether some copies of pods and nodes are whole and others are not: an importer began to make them all anew."""
    hindered: str = ""
    """Why this installation has not been able to bind for some seconds, in words. Empty where it may bind, and where
    another scheduler holds the Lease."""


@dataclass(frozen=True, slots=True)
class MayBind:
    """This installation holds the right to bind."""

    holder: str
    """The worker that holds it, as it is named elsewhere."""
    time: str = ""
    """RFC 3339, UTC."""


@dataclass(frozen=True, slots=True)
class Importer:
    """The one worker that copies; its key's mod revision is the epoch that each import compares."""

    holder: str
    time: str = ""
    """RFC 3339, UTC."""
