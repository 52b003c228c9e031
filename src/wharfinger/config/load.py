"""Reading a KubeSchedulerConfiguration: a mapping, a file (YAML or JSON), or nothing for the defaults."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from wharfinger.config.completion import CompletedProfile, complete
from wharfinger.config.errors import Problem, problems_of, refuse
from wharfinger.config.model import ProfileConfiguration, SchedulerConfiguration
from wharfinger.errors import ConfigurationError
from wharfinger.framework.catalog import Catalog


@dataclass(frozen=True, slots=True)
class Configuration:
    """A configuration that is valid and complete."""

    profiles: tuple[CompletedProfile, ...]


def load(source: Mapping[str, Any] | Path | str | None, catalog: Catalog) -> Configuration:
    """Read, validate and complete. `str` is a path. ConfigurationError names every problem with its path."""
    written = {} if source is None else dict(source) if isinstance(source, Mapping) else _read(Path(source))
    problems: list[Problem] = []
    try:
        readable = dict(enumerate(SchedulerConfiguration.model_validate(written).profiles))
    except ValidationError as error:
        problems += problems_of(error)
        readable = _readable_profiles(written.get("profiles"))
    completed = [complete(profile, catalog, f"profiles[{number}]", problems) for number, profile in readable.items()]
    _check_scheduler_names(readable, problems)
    if problems:
        raise refuse(problems)
    return Configuration(tuple(profile for profile in completed if profile is not None))


def _readable_profiles(written: object) -> dict[int, ProfileConfiguration]:
    """The profiles, by number, that are well-formed in a configuration that is not: what they say is checked too."""
    found: dict[int, ProfileConfiguration] = {}
    for number, profile in enumerate(written if isinstance(written, list | tuple) else ()):
        with suppress(ValidationError):
            found[number] = ProfileConfiguration.model_validate(profile)
    return found


def _check_scheduler_names(profiles: Mapping[int, ProfileConfiguration], problems: list[Problem]) -> None:
    seen: set[str] = set()
    for number, profile in profiles.items():
        path = f"profiles[{number}].schedulerName"
        if not profile.scheduler_name and len(profiles) > 1:
            problems.append((path, "is needed when there are several profiles"))
        elif profile.scheduler_name in seen:
            problems.append((path, f"{profile.scheduler_name} is the name of another profile too"))
        seen.add(profile.scheduler_name)


def _read(path: Path) -> Mapping[str, Any]:
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror or error}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: no UTF-8, or no date such as 2026-99-99
        raise ConfigurationError(f"{path}: is neither YAML nor JSON: {' '.join(str(error).split())}") from error
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise ConfigurationError(f"{path}: is not a mapping")
    return document
