"""The profiles that decide now: holders of this mapping read it at each decision, and so follow a change.

All profiles change in one assignment, between two decisions, for a decision awaits nothing; what took a profile out
before goes on with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from wharfinger.framework.profile import Profile


class InForce(Mapping[str, Profile]):
    """Profiles by scheduler name; the names stay, what stands behind them may be replaced."""

    def __init__(self, profiles: Mapping[str, Profile]) -> None:
        self._profiles = profiles

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
        self._profiles = profiles
