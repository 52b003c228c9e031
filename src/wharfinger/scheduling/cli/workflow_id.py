"""`wharfinger workflow-id`: under which id a pod's or a gang's attempts run in Temporal."""

from __future__ import annotations

from typing import Annotated

import typer

from wharfinger.cli.objects.naming import pod_key
from wharfinger.cli.options import ConnectionOptions, configured, namespace_option
from wharfinger.errors import InvalidObject, NotFound, UsageError
from wharfinger.objects.documents import kinds
from wharfinger.objects.documents.kinds import POD
from wharfinger.process.names import decisions_query, gang_workflow_id, pod_workflow_id
from wharfinger.scheduling.reading.pods_and_nodes import one_pod


@configured
async def workflow_id(
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
    if kind == "gang":
        if query:
            raise UsageError("--query is for pods; a gang has one workflow id")
        typer.echo(gang_workflow_id(connection.cluster, *pod_key(name, namespace)))
        return
    if kinds.by_word(kind) is not POD:
        raise UsageError(f"only pods and gangs have workflows of their own, not {kind!r}")
    key = pod_key(name, namespace)
    async with connection.store() as store:
        try:
            found = await one_pod(store, *key)
        except NotFound:
            if not query:
                raise
            found = None
    pod = found.pod if found is not None else None
    if query:
        typer.echo(decisions_query(connection.cluster, *key, group=pod.group if pod is not None else ""))
    elif pod is not None:
        typer.echo(pod_workflow_id(connection.cluster, *key, pod.uid))
    elif found is not None:
        raise InvalidObject(f"pod {key} cannot be read: {found.invalid}")
