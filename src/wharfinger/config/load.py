"""A KubeSchedulerConfiguration that was read: validated, completed, and shown again as a whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from wharfinger.config.completion import CompletedProfile, complete
from wharfinger.config.errors import Problem
from wharfinger.config.extender_fields import completed as completed_extender
from wharfinger.config.extender_fields import made, wrong
from wharfinger.config.file_fields import SchedulerConfiguration
from wharfinger.config.older_versions import as_of_now
from wharfinger.config.profile_fields import ProfileConfiguration
from wharfinger.config.understanding import understood
from wharfinger.framework.catalog import Catalog
from wharfinger.model.extenders import Extender


@dataclass(frozen=True, slots=True)
class Configuration:
    """A configuration with nothing left to default."""

    settings: SchedulerConfiguration
    """What stands beside the profiles; its own profiles are those that were written."""
    profiles: tuple[CompletedProfile, ...]

    @property
    def extenders(self) -> tuple[Extender, ...]:
        """The extenders that all profiles share, in the order of the configuration."""
        return made(self.settings.extenders)

    def document(self, *, secrets: bool = True) -> dict[str, Any]:
        """The whole, as a file would say it; read again, it gives the same profiles.

        `secrets`: whether with the keys of extenders' client certificates, which stand in a file too; a document
        without them is for people alone.
        """
        settings = self.settings.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"profiles"})
        extenders = settings.pop("extenders")
        for extender in extenders if not secrets else ():
            extender.get("tlsConfig", {}).pop("keyData", None)
        return {
            "apiVersion": settings.pop("apiVersion"),
            "kind": settings.pop("kind"),
            **settings,
            **({"extenders": extenders} if extenders else {}),
            "profiles": [profile.fields() for profile in self.profiles],
        }


def read(written: Mapping[str, Any], catalog: Catalog) -> tuple[Configuration, list[Problem]]:
    """Complete a configuration and find all that is wrong with it.

    With problems, the configuration holds what could be understood nevertheless, so that a caller can look for more.
    What depends on how plugins are made is left to `config.expansion`. Of an older version, what has to be changed
    comes first.
    """
    current, outdated = as_of_now(written)
    settings, problems = understood(current, SchedulerConfiguration)
    problems = outdated + problems
    malformed = tuple(path for path, _ in problems)
    # A name that could not be read is not missing.
    problems += [(path, why) for path, why in _ambiguous_names(settings.profiles) if not path.startswith(malformed)]
    problems += [(path, why) for path, why in wrong(settings.extenders) if path not in malformed]
    settings = settings.model_copy(update={"extenders": tuple(map(completed_extender, settings.extenders))})
    completed = tuple(
        complete(profile, catalog, number, settings, problems) for number, profile in enumerate(settings.profiles)
    )
    return Configuration(settings, completed), problems


def _ambiguous_names(profiles: Iterable[ProfileConfiguration]) -> Iterator[Problem]:
    names = [profile.scheduler_name for profile in profiles]
    for number, name in enumerate(names):
        path = f"profiles[{number}].schedulerName"
        if not name and len(names) > 1:
            yield path, "is needed when there are several profiles"
        elif name in names[:number]:
            yield path, f"{name} is the name of another profile too"
