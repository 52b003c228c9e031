"""What the build of the documents adds to `docs/`: pages made from the code, and the texts of the top folder.

MkDocs calls these functions (`hooks` in mkdocs.yml). The reference pages are made from typer's commands and pydantic's
models at each build, so they cannot differ from the code.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import click
import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from pydantic import BaseModel

from wharfinger.framework.config.validation import ConfigPart

ROOT = Path(__file__).parents[2]
COPIED = {"ARCHITECTURE.md": "architecture.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""Texts of the top folder -> their pages."""
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)#\s]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the copied texts and the pages made from the code."""
    for source, page in COPIED.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text()))
    files.append(File.generated(config, "reference/cli.md", content=cli_reference()))
    files.append(File.generated(config, "reference/client.md", content=client_reference()))
    files.append(File.generated(config, "reference/configuration.md", content=configuration_reference()))
    files.append(File.generated(config, "reference/kube-scheduler.md", content=kube_scheduler_reference()))
    files.append(File.generated(config, "reference/contract.md", content=_beside("contract").page()))
    files.append(File.generated(config, "reference/etcd-roles.md", content=etcd_roles_reference()))
    monitoring = _beside("monitoring")
    files.append(File.generated(config, "reference/metrics.md", content=monitoring.metrics_page()))
    files.append(File.generated(config, "reference/alerts.md", content=monitoring.alerts_page()))
    return files


def _beside(name: str) -> ModuleType:
    """The script of that name in this folder, which is on no path when MkDocs loads this one."""
    spec = importlib.util.spec_from_file_location(f"documents_{name}", Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Point links at pages; what is a file of the repository and no page becomes its name."""
    copied = page.file.src_path in COPIED.values()

    def target(found: re.Match[str]) -> str:
        text, path, anchor = found.group(1), found.group(2), found.group(3) or ""
        if "://" in path:
            return found.group(0)
        if copied:
            path = path.removeprefix("docs/") if path.startswith("docs/") else f"../{path}"
        name = path.removeprefix("../").removeprefix("../")
        if not path.startswith("../") or (name.endswith(".md") and (ROOT / "docs" / name).exists()):
            return f"[{text}]({path}{anchor})" if not path.endswith("decisions") else f"[{text}]({path}/README.md)"
        if name in COPIED:
            up = "../" * page.file.src_path.count("/")
            return f"[{text}]({up}{COPIED[name]}{anchor})"
        if not (ROOT / name).exists():
            raise SystemExit(f"{page.file.src_path} names {path}, which does not exist")
        return f"`{name}`" if text.strip("`") == name else f"{text} (`{name}`)"

    return LINK.sub(target, markdown)


def cli_reference() -> str:
    """Every command with its options, from typer."""
    from wharfinger.cli.main import command_line

    group = typer.main.get_command(command_line())
    lines = [
        "# Command line",
        "",
        "Made from the commands themselves. `--help` of each shows the same, without the variables.",
        "",
    ]
    with click.Context(group, info_name="wharfinger") as context:  # type: ignore[arg-type]
        lines += _commands(group, context)
    return "\n".join(lines)


def _commands(command: Any, context: Any) -> Iterator[str]:
    children = getattr(command, "commands", None)
    if children is None:
        yield from _command(command, context)
        return
    for name, child in children.items():
        if not child.hidden:
            yield from _commands(child, type(context)(child, info_name=name, parent=context))


def _command(command: Any, context: Any) -> Iterator[str]:
    yield f"## {context.command_path}"
    yield ""
    yield f"`{' '.join([context.command_path, *command.collect_usage_pieces(context)])}`"
    yield ""
    yield _plain(command.help or "")
    yield ""
    records, variables = [], {}
    for parameter in command.params:
        if record := parameter.get_help_record(context):
            records.append(record)
            if parameter.envvar:
                variables[record[0]] = f"`{parameter.envvar}`"
    if records:
        yield "| option | environment variable | what |"
        yield "| --- | --- | --- |"
        for option, text in records:
            yield f"| `{_cell(option)}` | {variables.get(option, '')} | {_cell(_plain(text))} |"
        yield ""


def client_reference() -> str:
    """Every public name of the Python client; mkdocstrings fills in their docstrings."""
    from wharfinger import client
    from wharfinger.placement.reading.update_runs import UpdateRuns

    lines = [
        "# Python client, name by name",
        "",
        "Made from the docstrings. [The Python client](../client.md) has examples.",
        "",
    ]
    first = ["Wharfinger", "Fleets", "Placements"]
    found = [getattr(client, name) for name in [*first, *(each for each in client.__all__ if each not in first)]]
    for each in [*found[:3], UpdateRuns, *found[3:]]:
        lines += [f"::: {each.__module__}.{each.__name__}", ""]
    return "\n".join(lines)


def etcd_roles_reference() -> str:
    """Every role of etcd's users, with the keys that it may read and write."""
    from wharfinger.programs.etcd_roles import ROLES

    lines = [
        "# Roles of etcd's users",
        "",
        "Made from the table by which `wharfinger etcd enable-users` makes them. Keys",
    ]
    lines += [
        "that end with a slash stand for all keys below them.",
        "",
        "| role | who | reads | writes |",
        "| --- | --- | --- | --- |",
    ]
    for role in ROLES:
        reads, writes = (", ".join(f"`{key}`" for key in keys) or "nothing" for keys in (role.reads, role.writes))
        writes += f", without `{role.without}`" if role.without else ""
        lines.append(f"| `{role.name}` | {role.what} | {reads} | {writes} |")
    return "\n".join(lines)


def configuration_reference() -> str:
    """Every field of the configuration files, from pydantic, and from the texts that stand below the fields."""
    from wharfinger.fleet.spec.fleet_fields import FleetFields
    from wharfinger.framework.config.file_fields import SchedulerConfiguration

    lines = ["# Configuration files", "", "Made from the models that read the files.", ""]
    for title, model in (("KubeSchedulerConfiguration", SchedulerConfiguration), ("SchedulerFleet", FleetFields)):
        head = [f"## {title}", "", "| field | type | default | what |", "| --- | --- | --- | --- |"]
        rows = [
            f"| `{row.field}` | {_cell(row.kind)} | {row.default} | {_cell(row.what)} |" for row in fields_of(model)
        ]
        lines += [*head, *rows, ""]
    return "\n".join(lines)


def kube_scheduler_reference() -> str:
    """Every flag and every feature gate of kube-scheduler, and what becomes of it."""
    from wharfinger.programs.cli.feature_gates import FIXED, NOT_BUILT, known_gates
    from wharfinger.programs.cli.flags import FLAGS

    lines = [
        "# Flags of kube-scheduler",
        "",
        "Made from the tables by which `wharfinger kube-scheduler` reads them. How it takes kube-scheduler's place: "
        "[the page about it](../kube-scheduler.md).",
        "",
        "| flag | type | default | what becomes of it |",
        "| --- | --- | --- | --- |",
    ]
    for flag in FLAGS:
        what = flag.text
        if flag.ignored:
            what = f"Accepted with a warning: {flag.ignored}."
        elif flag.refused:
            what = f"Refused: {flag.refused}."
        default = f"`{flag.default}`" if flag.default else ""
        lines.append(f"| `{flag.spelling}` | {flag.type.value} | {default} | {_cell(what)} |")
    lines += [
        "",
        "## Feature gates",
        "",
        "Every gate of Kubernetes 1.36 is known, and each may be set to its default. These concern a scheduler:",
        "",
        "| gate | default | verdict |",
        "| --- | --- | --- |",
    ]
    for name, gate in sorted(known_gates().items()):
        why = FIXED.get(name) or NOT_BUILT.get(name, "")
        if why:
            verdict = f"cannot be switched on: {why}"
            if name in FIXED:
                verdict = f"not switchable: {why}"
            elif gate.default:
                verdict = f"accepted with a warning: {why}"
            lines.append(f"| `{name}` | {str(gate.default).lower()} | {_cell(verdict)} |")
    lines += [
        "",
        "`AllAlpha` and `AllBeta` stay at their defaults. Gates that are locked in kube-scheduler are locked here. Any "
        "other gate is accepted: it says nothing to a scheduler.",
        "",
    ]
    return "\n".join(lines)


class FieldRow(NamedTuple):
    """A line of the reference."""

    field: str
    kind: str
    default: str
    what: str


def fields_of(model: type[BaseModel]) -> list[FieldRow]:
    """Every field of a model, and of those that it holds; what stands in several places is told at the first."""
    schema = model.model_json_schema(by_alias=True)
    rows: list[FieldRow] = []
    _collect(rows, model.__name__, schema, named=schema.get("$defs", {}), prefix="", told={})
    return rows


def _collect(
    rows: list[FieldRow],
    model: str,
    schema: dict[str, Any],
    *,
    named: dict[str, Any],
    prefix: str,
    told: dict[str, str],
) -> None:
    texts = _texts(model)
    for name, field in schema.get("properties", {}).items():
        default = field.get("default")
        shown = f"`{default}`" if isinstance(default, str | int | float) and default != "" else ""
        kind, part = _kind(field)
        what = texts.get(name) or named.get(part, {}).get("description", "")
        if part in told:
            what = f"{what} Fields as of `{told[part]}`."
        rows.append(FieldRow(f"{prefix}{name}", kind, shown, what))
        if part in named and part not in told:
            told[part] = f"{prefix}{name}"
            _collect(rows, part, named[part], named=named, prefix=f"{prefix}{name}.", told=told)


@cache
def _texts(model: str) -> dict[str, str]:
    """What stands below the fields of a model of that name, by their names in files."""
    found = {}
    for kind in (each for each in _models(ConfigPart) if each.__name__ == model):
        for base in (each for each in reversed(kind.__mro__) if issubclass(each, ConfigPart)):
            (definition,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
            assert isinstance(definition, ast.ClassDef)
            for line, below in pairwise(definition.body):
                name = line.target.id if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name) else ""
                if name in kind.model_fields and isinstance(below, ast.Expr):
                    found[kind.model_fields[name].alias or name] = str(ast.literal_eval(below.value))
    return found


def _models(kind: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for each in kind.__subclasses__():
        yield each
        yield from _models(each)


def _kind(field: dict[str, Any]) -> tuple[str, str]:
    """A field's type for readers, and the model that it holds."""
    if "$ref" in field:
        return "object", field["$ref"].rpartition("/")[2]
    if "anyOf" in field:
        kinds = [_kind(one) for one in field["anyOf"] if one.get("type") != "null"]
        return " or ".join(dict.fromkeys(kind for kind, _ in kinds)), next((part for _, part in kinds if part), "")
    if field.get("type") == "array":
        kind, part = _kind(field.get("items", {}))
        return f"list of {kind}", part
    if "enum" in field:
        return ", ".join(map(str, field["enum"])), ""
    return str(field.get("type", "any")), ""


def _plain(text: str) -> str:
    """Help without the marks of the terminal."""
    return re.sub(r"\[/?[a-z ]+\](?!\()", "", text).replace("\b", "").strip()


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
