"""`wharfinger kubernetes chart`: a Helm chart of the files from which `manifests` prints."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import MISSING
from pathlib import Path
from typing import Annotated, Any

import typer

from wharfinger.cli.options import configured
from wharfinger.errors import UsageError
from wharfinger.kubernetes.cli.install_choices import NAME, InstallChoices
from wharfinger.kubernetes.cli.install_files import objects_with
from wharfinger.options import declared
from wharfinger.process.build import release

_STANDBY = "eq .Values.schedulerName `default-scheduler`"
CONDITIONS = {
    "rbac/rbac.yaml": "",
    "rbac/standby.yaml": _STANDBY,
    "rbac/authentication.yaml": f"not ({_STANDBY})",
    "rbac/lease.yaml": f"not ({_STANDBY})",
    "rbac/flow-schemas.yaml": "",
    "base/etcd.yaml": "",
    "base/backups.yaml": "",
    "temporal/temporal.yaml": "not .Values.temporal",
    "base/scheduler.yaml": "",
    "hub/hub.yaml": ".Values.withHub",
    "member/member.yaml": ".Values.withMember",
    "monitoring/monitors.yaml": ".Values.monitoring",
    "monitoring/rules.yaml": ".Values.monitoring",
    "cert-manager/certificates.yaml": ".Values.certManager",
}
"""Files of the chart, and when their objects are there; empty = always."""
VARIANTS = {".Values.insecure": ["without_temporal_tls", "insecure"], ".Values.temporal": ["without_temporal_tls"]}
"""What changes objects: the first of these that holds, as parts of `paths.yaml`."""
_LEFT_OUT = {"namespace", "with_temporal", "user", "control_plane", "node", "joining", "only"}
"""Choices that a chart has not: Helm has a namespace of its own, and its pods have a service account."""
HELPERS = """{{- define "wharfinger.scheme" -}}{{ ternary "http" "https" .Values.insecure }}{{- end }}
{{- define "wharfinger.etcd" -}}
{{- $members := list }}
{{- range $i := until (int .Values.etcdReplicas) }}
{{- $at := printf "wharfinger-etcd-%d.wharfinger-etcd.%s.svc:2379" $i $.Release.Namespace }}
{{- $members = append $members (printf "%s://%s" (include "wharfinger.scheme" $) $at) }}
{{- end }}{{ join "," $members }}
{{- end }}
{{- define "wharfinger.etcdMembers" -}}
{{- $members := list }}
{{- range $i := until (int .Values.etcdReplicas) }}
{{- $at := printf "wharfinger-etcd-%d.wharfinger-etcd.%s.svc:2380" $i $.Release.Namespace }}
{{- $members = append $members (printf "wharfinger-etcd-%d=%s://%s" $i (include "wharfinger.scheme" $) $at) }}
{{- end }}{{ join "," $members }}
{{- end }}
"""
REFUSALS = """{{- if eq .Values.bootstrapScheduler .Values.schedulerName }}
{{- fail "bootstrapScheduler: wharfinger would have to place its own pods: name a scheduler that stays" }}
{{- end }}
{{- if and .Values.insecure .Values.certManager }}
{{- fail "insecure excludes certManager" }}
{{- end }}
"""


@configured
def chart(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where the chart is written; must not exist yet.")],
) -> None:
    """Write a Helm chart that installs what `kubernetes manifests` prints.

    Its values are the options of that command, in `values.yaml`, with a schema. The namespace is that of Helm.
    """
    if folder.exists():
        raise UsageError(f"{folder} exists: name a new folder")
    (folder / "templates").mkdir(parents=True)
    for name, text in chart_files().items():
        (folder / name).write_text(text, encoding="utf-8")


def chart_files() -> dict[str, str]:
    """The files of the chart, by their path in it."""
    from wharfinger.objects.documents.yaml_text import to_yaml

    properties = {name: {"description": help_, **kind} for name, help_, kind in _values()}
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "additionalProperties": False,
        "properties": {"global": {"type": "object"}, **properties},
    }
    about = {
        "apiVersion": "v2",
        "name": NAME,
        "description": "A durable pod scheduler: every scheduling attempt is a Temporal workflow.",
        "version": release().split("+")[0],
        "appVersion": release(),
    }
    values = "\n".join(f"# {help_}\n{to_yaml({name: kind['default']})}" for name, help_, kind in _values())
    templates = {f"templates/{file.rpartition('/')[2]}": "".join(_template(file)) for file in CONDITIONS}
    return {
        "Chart.yaml": to_yaml(about),
        "values.yaml": values,
        "values.schema.json": json.dumps(schema, indent=2) + "\n",
        "templates/_helpers.tpl": HELPERS,
        "templates/refusals.yaml": REFUSALS,
        **templates,
    }


def _values() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Name, help and schema of each value, the default among it."""
    for one in declared(InstallChoices):
        if one.option is None or one.field.name in _LEFT_OUT or one.field.default is MISSING:
            continue
        default = one.field.default
        kind = {bool: "boolean", int: "integer", str: "string"}[type(default)]
        limits = {"minimum": one.option.min, "maximum": one.option.max} if kind == "integer" else {}
        odd = {"enum": [1, 3, 5, 7]} if one.field.name == "etcd_replicas" else limits
        yield _camel(one.field.name), one.option.help, {"type": kind, "default": default, **odd}


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _template(file: str) -> Iterator[str]:
    """The objects of a file, each in as many variants as differ."""
    from wharfinger.objects.documents.yaml_text import to_yaml

    places = {name: f"valueof.{name}." for name in _expressions()}

    def texts(parts: list[str]) -> list[str]:
        return [_with_expressions(to_yaml(obj)) for obj in objects_with([file], places, parts)]

    if condition := CONDITIONS[file]:
        yield f"{{{{- if {condition} }}}}\n"
    for usual, *others in zip(texts([]), *(texts(parts) for parts in VARIANTS.values()), strict=True):
        yield "---\n"
        if set(others) == {usual}:
            yield usual
            continue
        for word, when, text in zip(("if", "else if"), VARIANTS, others, strict=True):
            yield f"{{{{- {word} {when} }}}}\n{text}"
        yield f"{{{{- else }}}}\n{usual}{{{{- end }}}}\n"
    if condition:
        yield "{{- end }}\n"


def _with_expressions(text: str) -> str:
    """Helm's expressions in place of what stands for them: `to_yaml` would wrap and quote these."""
    expressions = _expressions()

    def whole(found: re.Match[str]) -> str:
        quoted = "" if found[2] in ("replicas", "etcd_replicas") else " | quote"
        return f"{found[1]}{{{{ {expressions[found[2]]}{quoted} }}}}"

    text = re.sub(r"valueof\.(\w+)\.(?=\\n)", r"'valueof.\1.'", text)  # in a text that is YAML itself
    text = re.sub(r"(: |- )valueof\.(\w+)\.$", whole, text, flags=re.MULTILINE)
    return re.sub(r"valueof\.(\w+)\.", lambda found: f"{{{{ {expressions[found[1]]} }}}}", text)


def _expressions() -> dict[str, str]:
    """What is at the paths of the files, by the names that `paths.yaml` uses."""
    own = {one.field.name: f".Values.{_camel(one.field.name)}" for one in declared(InstallChoices)}
    return (
        own
        | {
            "namespace": ".Release.Namespace",
            "temporal": "default (printf `wharfinger-temporal.%s.svc:7233` .Release.Namespace) .Values.temporal",
            "temporal_namespace": (
                "default (ternary `default` `wharfinger` (ne .Values.temporal ``)) .Values.temporalNamespace"
            ),
            "lease_namespace": f"ternary `kube-system` .Release.Namespace ({_STANDBY})",
            "lease_name": f"ternary `kube-scheduler` .Values.cluster ({_STANDBY})",
            "scheme": "include `wharfinger.scheme` .",
            "etcd": "include `wharfinger.etcd` .",
            "etcd_members": "include `wharfinger.etcdMembers` .",
        }
        | dict.fromkeys(("member", "peer_url", "control_planes", "cluster_state"), "")
    )
