"""`wharfinger explain`: every recorded attempt of a pod, and what it waits for."""

from __future__ import annotations

from typing import Annotated

import typer

from wharfinger.cli.options import UNDERSTAND, Connection, connected
from wharfinger.cli.output import Output, OutputOption, show
from wharfinger.cli.stored import pod_key
from wharfinger.errors import NotFound, UsageError
from wharfinger.manifests import kinds
from wharfinger.manifests.kinds import POD
from wharfinger.model.pod import PodKey


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("explain", rich_help_panel=UNDERSTAND)(explain)


@connected
def explain(
    kind: Annotated[str, typer.Argument(help="Only pods are scheduled.", metavar="pod")],
    name: Annotated[str, typer.Argument(help="The pod.", metavar="NS/NAME")],
    *,
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", help="Namespace, when only a name is given.", metavar="NAME")
    ] = "default",
    attempts: Annotated[int, typer.Option("--attempts", help="How many to show, the newest.", min=1, max=1000)] = 20,
    output: OutputOption = Output.TABLE,
    connection: Connection,
) -> None:
    """Tell why a pod is where it is, or still waits: from its recorded attempts."""
    from wharfinger.cli import connect

    if kinds.by_word(kind) is not POD:
        raise UsageError(f"only pods are scheduled, not {kind!r}")
    connect.run(_explain(connection, pod_key(name, namespace), attempts, output))


async def _explain(connection: Connection, key: PodKey, limit: int, output: Output) -> None:
    from wharfinger.cli.connect import open_store, open_temporal
    from wharfinger.cli.story import tell
    from wharfinger.observe.attempts import explain_pod
    from wharfinger.observe.explanation import to_plain

    async with open_store(connection) as store:
        client = await open_temporal(connection)
        found = await explain_pod(client, store, cluster=connection.cluster, key=key, limit=limit)
    if found.state == "deleted" and not found.attempts:
        raise NotFound(f"there is no pod {key}, and Temporal keeps no attempt of one")
    if output is Output.TABLE:
        typer.echo(tell(found))
    else:
        show(to_plain(found), output)
