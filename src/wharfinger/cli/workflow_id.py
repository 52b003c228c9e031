"""`wharfinger workflow-id`: under which id a pod's or a gang's attempts run in Temporal."""

from __future__ import annotations

from typing import Annotated

import typer

from wharfinger.cli.options import UNDERSTAND, Connection, connected
from wharfinger.cli.stored import one, pod_key
from wharfinger.contracts.names import gang_workflow_id, pod_workflow_id
from wharfinger.errors import InvalidObject, UsageError
from wharfinger.manifests import kinds
from wharfinger.manifests.kinds import POD
from wharfinger.model.pod import PodKey


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("workflow-id", rich_help_panel=UNDERSTAND)(workflow_id)


@connected
def workflow_id(
    kind: Annotated[str, typer.Argument(help="Only pods and gangs have one.", metavar="pod|gang")],
    name: Annotated[str, typer.Argument(help="The pod, or the gang's group.", metavar="NS/NAME")],
    *,
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="Namespace, when only a name is given.", metavar="NAME")
    ] = "default",
    connection: Connection,
) -> None:
    """Print the workflow id of a pod's or gang's attempts, for the temporal command and other clients.

    A pod that was placed together with others was not tried under its own id; `describe` and `explain` name the run.
    """
    from wharfinger.cli import connect

    if kind == "gang":
        typer.echo(gang_workflow_id(connection.cluster, *pod_key(name, namespace)))
        return
    if kinds.by_word(kind) is not POD:
        raise UsageError(f"only pods and gangs have workflows of their own, not {kind!r}")
    typer.echo(connect.run(_workflow_id(connection, pod_key(name, namespace))))


async def _workflow_id(connection: Connection, key: PodKey) -> str:
    from wharfinger.cli.connect import open_store

    async with open_store(connection) as store:
        found = await one(store, POD, key.namespace, key.name)
    if found.pod is None:
        raise InvalidObject(f"pod {key} cannot be read: {found.invalid}")
    return pod_workflow_id(connection.cluster, key.namespace, key.name, found.pod.uid)
