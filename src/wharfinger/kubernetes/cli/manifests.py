"""`wharfinger kubernetes manifests`: prints what an installation in a Kubernetes cluster consists of.

Nothing is read from any server and nothing is written: the output is for `kubectl apply -f -`, or for a repository. The
files in `deploy/kubernetes` are such outputs; a test makes them again.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

import typer

from wharfinger.cli.options import configured
from wharfinger.errors import ServerError, UsageError
from wharfinger.kubernetes.cli.install_choices import InstallChoices, Manifest
from wharfinger.options import arguments

RBAC_OF_STATIC_PODS = ("--only=rbac", "--scheduler-name=default-scheduler", "--user=system:kube-scheduler")


@configured
def manifests(choices: InstallChoices) -> None:
    """Print manifests that run wharfinger in a Kubernetes cluster.

    They have a namespace, permissions, FlowSchemas, etcd and schedulers, all without privileges. Choices by which
    wharfinger would have to place its own pods are refused: these could not start again once all of them are down.
    """
    only = choices.only
    if choices.with_temporal and (choices.temporal or only is not None):
        raise UsageError("--with-temporal excludes --temporal and --only")
    if not (choices.temporal or choices.with_temporal or only == "rbac"):
        raise UsageError("name a Temporal by --temporal HOST:PORT, or print one by --with-temporal")
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
    from wharfinger.kubernetes.cli import temporal_objects
    from wharfinger.kubernetes.cli.etcd_objects import etcd_objects
    from wharfinger.kubernetes.cli.scheduler_objects import rbac_objects, scheduler_objects
    from wharfinger.kubernetes.cli.static_pods import static_pods

    if choices.only == "static-pods":
        return static_pods(choices)
    if choices.only == "rbac":
        return rbac_objects(choices)
    restricted = {"pod-security.kubernetes.io/enforce": "restricted"}
    metadata = choices.metadata(choices.namespace, namespaced=False)
    found = [
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {**metadata, "labels": {**metadata["labels"], **restricted}},
        },
        *rbac_objects(choices),
        *etcd_objects(choices),
    ]
    temporal = choices.temporal or temporal_objects.address(choices)
    if not choices.temporal:
        found += temporal_objects.temporal_objects(choices, temporal_scripts())
    return [*found, *scheduler_objects(choices, temporal)]


def _before(choices: InstallChoices) -> Iterator[str]:
    from wharfinger.kubernetes.cli import static_pods, temporal_objects

    kind_first = sorted(arguments(choices), key=lambda one: not one.startswith(("--only", "--with-temporal")))
    yield f"wharfinger kubernetes manifests {shlex.join(kind_first)}"
    if choices.only == "static-pods":
        yield from static_pods.preparation(choices)
        yield "Permissions, once for all nodes:"
        yield f"  wharfinger kubernetes manifests {' '.join(RBAC_OF_STATIC_PODS)} | kubectl apply -f -"
        yield "Then put each of the two documents into a file of its own below /etc/kubernetes/manifests."
    elif choices.only is None and not choices.temporal:
        yield "Before: a password for PostgreSQL, which nothing starts without:"
        yield f"  kubectl create namespace {choices.namespace}"
        yield (
            f"  kubectl -n {choices.namespace} create secret generic {temporal_objects.SECRET} "
            '--from-literal=password="$(openssl rand -hex 24)"'
        )


def temporal_scripts() -> Path:
    """The folder with Temporal's scripts: of the checkout, or packed in the wheel. Raises `ServerError`."""
    from wharfinger.process.build import checkout

    root = checkout()
    folder = (root if root is not None else Path(__file__).resolve().parents[2]) / "deploy" / "temporal"
    if not folder.is_dir():
        raise ServerError(f"--with-temporal: there is no folder {folder}")
    return folder
