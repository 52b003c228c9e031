"""`wharfinger kubernetes`: its commands, each in a module of this package."""

from __future__ import annotations

import typer

from wharfinger.cli.options import command_group


def commands() -> typer.Typer:
    """The group."""
    from wharfinger.kubernetes.cli.applying import apply, delete
    from wharfinger.kubernetes.cli.audit import audit
    from wharfinger.kubernetes.cli.certificates import certificates
    from wharfinger.kubernetes.cli.chart import chart
    from wharfinger.kubernetes.cli.manifests import manifests
    from wharfinger.kubernetes.cli.status import status

    return command_group(
        "The Kubernetes API whose pods are scheduled: how the installation does, whether the copies in etcd are "
        "right, and manifests to run wharfinger there.",
        {
            "status": status,
            "audit": audit,
            "manifests": manifests,
            "certificates": certificates,
            "chart": chart,
            "apply": apply,
            "delete": delete,
        },
    )
