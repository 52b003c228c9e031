"""The template of a fleet: read, completed, and named.

Two templates are equal when they are equal after completion by the running code, and then have the same name: SHA-256
over the canonical JSON of the completed one, every default written out, secrets as references. The order of fields,
defaults that are spelled out, and the spelling of amounts (`1Gi`, `1024Mi`) make no difference. No
schedulerConfiguration at all means the agent's own, whatever that is, and so differs from any that is written.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from wharfinger.config import fleet_fields
from wharfinger.config.drafts import drafted
from wharfinger.config.errors import Problem, refuse, within
from wharfinger.config.fleet_fields import TemplateFields
from wharfinger.config.load import read
from wharfinger.config.understanding import understood
from wharfinger.framework.catalog import Catalog
from wharfinger.model.fleet import Secret, Template


def read_template(written: Mapping[str, Any], catalog: Catalog) -> tuple[Template, str]:
    """A template and its completed name. Raises InvalidConfiguration, which names all that is wrong."""
    fields, problems = understood(written, TemplateFields)
    template, name, more = completed(fields, catalog, [path for path, _ in problems])
    problems += more
    if problems:
        raise refuse(problems)
    return template, name


def completed(fields: TemplateFields, catalog: Catalog, malformed: list[str]) -> tuple[Template, str, list[Problem]]:
    """A template, its name, and what is wrong with it beyond the `malformed` paths; these begin below the template."""
    configuration: dict[str, Any] | None = None
    problems: list[Problem] = []
    size = len(_canonical(fields.scheduler_configuration))
    if size > fleet_fields.LARGEST_CONFIGURATION:
        problems.append(("schedulerConfiguration", f"is larger than {fleet_fields.LARGEST_CONFIGURATION} bytes"))
    elif fields.scheduler_configuration:
        found, inside = read(fields.scheduler_configuration, catalog)
        inside += drafted(found, catalog)[1]
        problems += [(f"schedulerConfiguration.{path}", why) for path, why in inside]
        # Every profile has its own percentage once it is completed; the whole file's says nothing more.
        configuration = None if inside else {**found.document(), "percentageOfNodesToScore": None}
    problems += _environment(fields.environment)
    problems += [(path, why) for path, why in _secrets(fields) if not any(within(path, part) for part in malformed)]
    template = Template(
        version=fields.version,
        configuration=fields.scheduler_configuration,
        environment=fields.environment,
        secrets=tuple(Secret(secret.name, secret.version) for secret in fields.secrets),
        memory=fields.resources.memory,
        cpu=fields.resources.cpu,
        restarted_at=fields.restarted_at,
    )
    return template, _name(template, configuration), problems


def _name(template: Template, configuration: dict[str, Any] | None) -> str:
    document = {
        "schedulerConfiguration": configuration,
        "version": template.version,
        "environment": template.environment,
        "secrets": sorted([secret.name, secret.version] for secret in template.secrets),
        "resources": {"memory": template.memory, "cpu": template.cpu},
        "restartedAt": template.restarted_at,
    }
    return hashlib.sha256(_canonical(document)).hexdigest()


def _canonical(document: object) -> bytes:
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode(errors="surrogatepass")


def _environment(variables: Mapping[str, str]) -> Iterator[Problem]:
    if len(variables) > fleet_fields.MOST_VARIABLES:
        yield "environment", f"has more than {fleet_fields.MOST_VARIABLES} variables"
        return
    size = 0
    for name, value in variables.items():
        path = f"environment.{name[:80]}"
        length = len(value.encode(errors="surrogatepass"))
        size += len(name) + length
        if not fleet_fields.is_variable(name):
            yield path, "is no name of a variable: letters, digits and underscores, at most 128, no digit first"
        if length > fleet_fields.LONGEST_VALUE:
            yield path, f"is longer than {fleet_fields.LONGEST_VALUE} bytes"
        if "\0" in value or not _is_unicode(value):
            yield path, "holds what no variable can: a zero byte, or half of a surrogate pair"
    if size > fleet_fields.LARGEST_ENVIRONMENT:
        yield "environment", f"is larger than {fleet_fields.LARGEST_ENVIRONMENT} bytes together"


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _secrets(fields: TemplateFields) -> Iterator[Problem]:
    seen: set[str] = set()
    for number, secret in enumerate(fields.secrets):
        for field, value in (("name", secret.name), ("version", secret.version)):
            if not value:
                yield f"secrets[{number}].{field}", "is missing"
        if secret.name and secret.name in seen:
            yield f"secrets[{number}].name", f"{secret.name} is named more than once"
        seen.add(secret.name)
