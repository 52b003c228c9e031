"""`wharfinger kubernetes manifests`: prints what an installation in a Kubernetes cluster consists of.

Nothing is read from any server and nothing is written: the output is for `kubectl apply -f -`, or for a repository. The
objects are those of `deploy/kubernetes`, with values at the paths that are listed there (`install_files`).
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

import typer

from wharfinger.cli.options import configured
from wharfinger.errors import UsageError
from wharfinger.kubernetes.cli.install_choices import STANDBY_LEASE, InstallChoices
from wharfinger.kubernetes.cli.install_files import Manifest, objects_with, text_with
from wharfinger.objects.model.pod import DEFAULT_SCHEDULER
from wharfinger.options import arguments


@configured
def manifests(choices: InstallChoices) -> None:
    """Print manifests that run wharfinger in a Kubernetes cluster.

    They have a namespace, permissions, FlowSchemas, etcd and schedulers, all without privileges. The parts know each
    other by certificates. Choices by which wharfinger would have to place its own pods are refused: these could not
    start again once all of them are down.
    """
    only = choices.only
    if choices.with_temporal and (choices.temporal or only is not None):
        raise UsageError("--with-temporal excludes --temporal and --only")
    if not (choices.temporal or choices.with_temporal or only == "rbac"):
        raise UsageError("name a Temporal by --temporal HOST:PORT, or print one by --with-temporal")
    if only is not None and any((choices.with_hub, choices.with_member, choices.monitoring, choices.cert_manager)):
        raise UsageError("--only excludes --with-hub, --with-member, --monitoring and --cert-manager")
    if choices.insecure and (only is not None or choices.cert_manager):
        raise UsageError("--insecure excludes --only and --cert-manager")
    if choices.user and only != "rbac":
        raise UsageError("--user goes with --only rbac: pods of the cluster have a service account")
    if (choices.control_plane or choices.node or choices.joining) and only != "static-pods":
        raise UsageError("--control-plane, --node and --joining go with --only static-pods")
    typer.echo(text_of(choices), nl=False)


def text_of(choices: InstallChoices) -> str:
    """The YAML documents, with what has to be done before as comments. Raises `UsageError`."""
    from wharfinger.objects.documents.yaml_text import to_yaml

    comments = "".join(f"# {line}\n" for line in _before(choices))
    return comments + "".join(f"---\n{to_yaml(obj)}" for obj in objects_of(choices))


def objects_of(choices: InstallChoices) -> Sequence[Manifest]:
    """The objects, in the order in which they are applied. Raises `UsageError`."""
    parts = {
        "user": choices.user,
        "without_temporal_tls": choices.only is None and (choices.temporal or choices.insecure),
        "insecure": choices.insecure,
    }
    return list(objects_with(_files(choices), choices.values(), [part for part, counts in parts.items() if counts]))


def _files(choices: InstallChoices) -> Iterator[str]:
    """The files that make the installation. Raises `UsageError`."""
    if choices.only == "static-pods":
        if choices.scheduler_name != DEFAULT_SCHEDULER:
            raise UsageError(
                f"--only static-pods: these run in kube-scheduler's place, so their name is {DEFAULT_SCHEDULER}, not "
                f"{choices.scheduler_name}"
            )
        yield "static-pods/etcd-of-several.yaml" if choices.control_plane else "static-pods/etcd.yaml"
        yield "static-pods/scheduler.yaml"
        return
    whole = choices.only is None
    if whole:
        yield "base/namespace.yaml"
    yield "rbac/rbac.yaml"
    yield from (
        ["rbac/standby.yaml"] if choices.lease == STANDBY_LEASE else ["rbac/authentication.yaml", "rbac/lease.yaml"]
    )
    yield "rbac/flow-schemas.yaml"
    if whole:
        yield from ("base/etcd.yaml", "base/backups.yaml")
        if not choices.temporal:
            yield "temporal/temporal.yaml"
        yield "base/scheduler.yaml"
        for file, wanted in (
            ("hub/hub.yaml", choices.with_hub),
            ("member/member.yaml", choices.with_member),
            ("monitoring/monitors.yaml", choices.monitoring),
            ("monitoring/rules.yaml", choices.monitoring),
            ("cert-manager/certificates.yaml", choices.cert_manager),
        ):
            if wanted:
                yield file


def _before(choices: InstallChoices) -> Iterator[str]:
    kind_first = sorted(arguments(choices), key=lambda one: not one.startswith(("--only", "--with-temporal")))
    yield f"wharfinger kubernetes manifests {shlex.join(kind_first)}"
    if choices.insecure:
        yield "For trials only: no TLS and no authentication between the parts (--insecure)."
    if choices.only == "static-pods":
        files = ["static-pods/before-several.txt" if choices.control_plane else "static-pods/before.txt"]
    elif choices.only is None:
        certificates = [] if choices.insecure or choices.cert_manager else ["cert-manager/before.txt"]
        secrets = [*certificates, *([] if choices.temporal else ["temporal/before.txt"])]
        files = ["base/before.txt", *secrets] if secrets else []
    else:
        files = []
    for file in files:
        yield from text_with(file, choices.values()).splitlines()
