"""Binding by an extender, where a Kubernetes API is the store: the extender is asked instead of a POST of ours.

::

    promise ─► look ─► ask the extender ─► look ── on its node ──────────► kept
                │ on its node: kept          ├──── pending, and it failed ► given up; ignorable: our own POST
                                             └──── pending, and it agreed ► the promise stays, the caller tries again

Only the API can tell what became of a call, so a look precedes and follows it. An extender that binds late, after its
time-out, is adopted as any other writer: nothing fences it off, because it names no revision.
"""

from __future__ import annotations

from collections.abc import Mapping

from wharfinger.framework.extenders.asking import Calls, ask_to_bind
from wharfinger.framework.profile import Profile
from wharfinger.objects.model.extenders import Extender, binder_of
from wharfinger.objects.model.pod import PodKey
from wharfinger.scheduling.model.promises import Promise
from wharfinger.scheduling.state.cache.cache import Cache


class ExtenderBinders:
    """The extenders that bind pods of one worker's profiles."""

    def __init__(self, cache: Cache, profiles: Mapping[str, Profile], calls: Calls) -> None:
        self._cache = cache
        self._profiles = profiles
        self._calls = calls

    def of(self, pod: PodKey) -> Extender | None:
        """The extender that binds the pod; None where this worker does, or does not know the pod."""
        known = self._cache.pods.get(pod)
        profile = self._profiles.get(known.scheduler_name) if known is not None else None
        return None if known is None or profile is None else binder_of(profile.extenders, known)

    async def bind(self, extender: Extender, pod: PodKey, promise: Promise) -> str:
        """Have the promise carried out; empty when the extender says that it is, else why not."""
        return await ask_to_bind(extender, pod, promise.uid, promise.node, self._calls)
