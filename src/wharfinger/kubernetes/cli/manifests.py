"""`wharfinger kubernetes manifests`: prints what an installation in a Kubernetes cluster consists of.

Nothing is read from any server and nothing is written: the output is for `kubectl apply -f -`, or for a repository. The
files in `deploy/kubernetes` are such outputs; a test makes them again.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wharfinger.cli.options import namespace_option
from wharfinger.errors import ServerError, UsageError

if TYPE_CHECKING:
    from wharfinger.kubernetes.cli.install_choices import InstallChoices, Manifest

RBAC_OF_STATIC_PODS = ("--only=rbac", "--scheduler-name=default-scheduler", "--user=system:kube-scheduler")


class OnlyChoice(StrEnum):
    """A part of the manifests."""

    RBAC = "rbac"
    STATIC_PODS = "static-pods"


def _text(name: str, text: str, metavar: str, shown: str | bool = True) -> object:
    return typer.Option(f"--{name}", help=text, metavar=metavar, show_default=shown)


def manifests(
    *,
    scheduler_name: Annotated[
        str,
        _text(
            "scheduler-name",
            "Pods with this spec.schedulerName are scheduled; default-scheduler: pods that name none.",
            "NAME",
        ),
    ] = "wharfinger",
    bootstrap_scheduler: Annotated[
        str,
        _text("bootstrap-scheduler", "The scheduler that places wharfinger's own pods, and that stays.", "NAME"),
    ] = "default-scheduler",
    namespace: Annotated[str, namespace_option("Namespace of all objects.")] = "wharfinger",
    cluster: Annotated[str, _text("cluster", "Name of the cluster, and of the Lease.", "NAME")] = "wharfinger",
    image: Annotated[
        str, _text("image", "Image of wharfinger, as the Dockerfile makes it.", "IMAGE")
    ] = "wharfinger:latest",
    replicas: Annotated[int, typer.Option(min=1, max=100, metavar="N", help="Number of schedulers.")] = 2,
    etcd_replicas: Annotated[int, typer.Option(min=1, max=7, metavar="N", help="Members of etcd: 1, 3, 5 or 7.")] = 3,
    etcd_storage: Annotated[str, _text("etcd-storage", "Volume of each member.", "SIZE")] = "16Gi",
    temporal: Annotated[str, _text("temporal", "Front end of a Temporal that exists.", "HOST:PORT", False)] = "",
    temporal_namespace: Annotated[
        str, _text("temporal-namespace", "Its namespace.", "NAME", "default; wharfinger with --with-temporal")
    ] = "",
    with_temporal: Annotated[
        bool, typer.Option("--with-temporal", help="Print a Temporal on PostgreSQL as well.")
    ] = False,
    user: Annotated[
        str,
        _text(
            "user", "Grant the permissions to this user of the Kubernetes API, not to a service account.", "NAME", False
        ),
    ] = "",
    control_plane: Annotated[
        list[str] | None,
        typer.Option(
            "--control-plane",
            metavar="NAME=ADDRESS",
            help="Static pods on several nodes, with one etcd: a control-plane node and its IP address. Once for each.",
        ),
    ] = None,
    node: Annotated[str, _text("node", "Of these, the node whose static pods are printed.", "NAME", False)] = "",
    joining: Annotated[
        bool, typer.Option("--joining", help="The node joins an etcd that runs, after `etcdctl member add`.")
    ] = False,
    only: Annotated[
        OnlyChoice | None,
        typer.Option(
            "--only",
            help="`rbac`: permissions and FlowSchemas alone. `static-pods`: etcd and a scheduler as static pods of a "
            "control-plane node, for a cluster without another scheduler.",
        ),
    ] = None,
) -> None:
    """Print manifests that run wharfinger in a Kubernetes cluster.

    They have a namespace, permissions, FlowSchemas, etcd and schedulers, all without privileges. Choices by which
    wharfinger would have to place its own pods are refused: these could not start again once all of them are down.
    """
    from wharfinger.kubernetes.cli import temporal_objects
    from wharfinger.kubernetes.cli.install_choices import InstallChoices

    if with_temporal and (temporal or only is not None):
        raise UsageError("--with-temporal excludes --temporal and --only")
    if not (temporal or with_temporal or only is OnlyChoice.RBAC):
        raise UsageError("name a Temporal by --temporal HOST:PORT, or print one by --with-temporal")
    if user and only is not OnlyChoice.RBAC:
        raise UsageError("--user goes with --only rbac: pods of the cluster have a service account")
    if (control_plane or node or joining) and only is not OnlyChoice.STATIC_PODS:
        raise UsageError("--control-plane, --node and --joining go with --only static-pods")
    choices = InstallChoices(
        namespace=namespace,
        cluster=cluster,
        scheduler_name=scheduler_name,
        bootstrap_scheduler=bootstrap_scheduler if only is None else "",
        image=image,
        replicas=replicas,
        etcd_replicas=etcd_replicas,
        etcd_storage=etcd_storage,
        temporal=temporal,
        temporal_namespace=temporal_namespace or (temporal_objects.NAMESPACE if with_temporal else "default"),
        user=user,
        control_plane=tuple(control_plane or ()),
        node=node,
        joining=joining,
    )
    typer.echo(text_of(choices, only), nl=False)


def text_of(choices: InstallChoices, only: OnlyChoice | None = None) -> str:
    """The YAML documents, with what has to be done before as comments. Raises `UsageError`."""
    from wharfinger.objects.documents.yaml_text import to_yaml

    comments = "".join(f"# {line}\n" for line in _before(choices, only))
    return comments + "".join(f"---\n{to_yaml(obj)}" for obj in objects_of(choices, only))


def objects_of(choices: InstallChoices, only: OnlyChoice | None = None) -> Sequence[Manifest]:
    """The objects, in the order in which they are applied. Raises `UsageError`."""
    from wharfinger.kubernetes.cli import temporal_objects
    from wharfinger.kubernetes.cli.etcd_objects import etcd_objects
    from wharfinger.kubernetes.cli.scheduler_objects import rbac_objects, scheduler_objects
    from wharfinger.kubernetes.cli.static_pods import static_pods

    if only is OnlyChoice.STATIC_PODS:
        return static_pods(choices)
    if only is OnlyChoice.RBAC:
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


def _before(choices: InstallChoices, only: OnlyChoice | None) -> Iterator[str]:
    from wharfinger.kubernetes.cli import static_pods, temporal_objects

    yield f"wharfinger kubernetes manifests {shlex.join(_arguments(choices, only))}".rstrip()
    if only is OnlyChoice.STATIC_PODS:
        yield from static_pods.preparation(choices)
        yield "Permissions, once for all nodes:"
        yield f"  wharfinger kubernetes manifests {' '.join(RBAC_OF_STATIC_PODS)} | kubectl apply -f -"
        yield "Then put each of the two documents into a file of its own below /etc/kubernetes/manifests."
    elif only is None and not choices.temporal:
        yield "Before: a password for PostgreSQL, which nothing starts without:"
        yield f"  kubectl create namespace {choices.namespace}"
        yield (
            f"  kubectl -n {choices.namespace} create secret generic {temporal_objects.SECRET} "
            '--from-literal=password="$(openssl rand -hex 24)"'
        )


def _arguments(choices: InstallChoices, only: OnlyChoice | None) -> Iterator[str]:
    """The options that print the same again; defaults are left out."""
    from dataclasses import fields

    from wharfinger.kubernetes.cli import temporal_objects

    in_cluster = only is None
    if only is not None:
        yield f"--only={only.value}"
    if in_cluster and not choices.temporal:
        yield "--with-temporal"
    usual = {one.name: one.default for one in fields(choices)}
    if in_cluster and not choices.temporal:
        usual["temporal_namespace"] = temporal_objects.NAMESPACE
    for name, default in usual.items():
        value = getattr(choices, name)
        if value == default or (name == "bootstrap_scheduler" and not in_cluster):
            continue
        option = f"--{name.replace('_', '-')}"
        if value is True:
            yield option
        else:
            yield from (f"{option}={one}" for one in (value if isinstance(value, tuple) else (value,)))


def temporal_scripts() -> Path:
    """The folder with Temporal's scripts: of the checkout, or packed in the wheel. Raises `ServerError`."""
    from wharfinger.process.build import checkout

    root = checkout()
    folder = (root if root is not None else Path(__file__).resolve().parents[2]) / "deploy" / "temporal"
    if not folder.is_dir():
        raise ServerError(f"--with-temporal: there is no folder {folder}")
    return folder
