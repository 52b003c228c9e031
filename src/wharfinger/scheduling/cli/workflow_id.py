"""`wharfinger workflow-id`: under which id a pod's or a gang's attempts run in Temporal."""

from __future__ import annotations

from typing import Annotated

import typer

from wharfinger.cli.objects.naming import pod_key
from wharfinger.cli.options import ConnectionOptions, configured, namespace_option
from wharfinger.errors import InvalidObject, NotFound, UsageError
from wharfinger.objects.documents import kinds
from wharfinger.objects.documents.kinds import POD
from wharfinger.objects.model.pod import PodKey
from wharfinger.process.names import decisions_query, gang_workflow_id, pod_workflow_id
from wharfinger.scheduling.reading.pods_and_nodes import one_pod


@configured
def workflow_id(
    kind: Annotated[str, typer.Argument(help="Only pods and gangs have one.", metavar="pod|gang")],
    name: Annotated[str, typer.Argument(help="The pod, or the gang's group.", metavar="NS/NAME")],
    *,
    namespace: Annotated[str, namespace_option("Namespace, when only a name is given.")] = "default",
    query: Annotated[
        bool,
        typer.Option("--query", help="Instead, a query for the Temporal UI: every run that decided the pod."),
    ] = False,
    connection: ConnectionOptions,
) -> None:
    """Print the workflow id of a pod's or gang's attempts, for the temporal command and other clients.

    A pod that was placed together with others was not tried under its own id. --query finds that run as well, also of a
    pod that is deleted: temporal workflow list --query "$(wharfinger workflow-id pod NS/NAME --query)".
    """
    from wharfinger.cli import connect

    if kind == "gang":
        if query:
            raise UsageError("--query is for pods; a gang has one workflow id")
        typer.echo(gang_workflow_id(connection.cluster, *pod_key(name, namespace)))
        return
    if kinds.by_word(kind) is not POD:
        raise UsageError(f"only pods and gangs have workflows of their own, not {kind!r}")
    find = _query if query else _workflow_id
    typer.echo(connect.run(find(connection, pod_key(name, namespace))))


async def _query(connection: ConnectionOptions, key: PodKey) -> str:
    async with connection.store() as store:
        try:
            pod = (await one_pod(store, *key)).pod
        except NotFound:
            pod = None
    return decisions_query(connection.cluster, *key, group=pod.group if pod is not None else "")


async def _workflow_id(connection: ConnectionOptions, key: PodKey) -> str:
    async with connection.store() as store:
        found = await one_pod(store, *key)
    if found.pod is None:
        raise InvalidObject(f"pod {key} cannot be read: {found.invalid}")
    return pod_workflow_id(connection.cluster, key.namespace, key.name, found.pod.uid)
