"""The profiles that decide now: one for each scheduler name, replaced when a new configuration is taken.

Neighbours: `framework.profile` is one of them; `dynamic_config` replaces them while the worker runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from wharfinger.framework.profile import Profile
from wharfinger.framework.timing import PointTimes


class InForce(Mapping[str, Profile]):
    """The profiles that decide now, by scheduler name; the names stay, the profiles may be replaced.

    Holders of this mapping read it at each decision, and so follow a change. All profiles change in one assignment,
    between two decisions, because a decision awaits nothing. A holder that took a profile out before goes on with it.
    """

    def __init__(self, profiles: Mapping[str, Profile], times: PointTimes | None = None) -> None:
        """`times`: keeps how long the extension points of these profiles take; None = they are not measured."""
        self._times = times
        self._profiles: Mapping[str, Profile] = {}
        self._set(profiles)

    def __getitem__(self, name: str) -> Profile:
        return self._profiles[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._profiles)

    def __len__(self) -> int:
        return len(self._profiles)

    def replace(self, profiles: Mapping[str, Profile]) -> None:
        """Decide by these from now on. ValueError unless they have the same names."""
        if profiles.keys() != self._profiles.keys():
            raise ValueError("other scheduler names than before: pods would change their scheduler unnoticed")
        self._set(profiles)

    def _set(self, profiles: Mapping[str, Profile]) -> None:
        for profile in profiles.values():
            profile.times = self._times
        self._profiles = profiles
