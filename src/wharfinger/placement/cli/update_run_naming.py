"""What commands about update runs have in common: how a run is named, and the store that its methods need."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from wharfinger.cli.options import ConnectionOptions

if TYPE_CHECKING:
    from wharfinger.placement.reading.update_runs import UpdateRuns

RunArgument = Annotated[str, typer.Argument(help="Name of the update run.", metavar="RUN")]
RunNamespaceOption = Annotated[
    str,
    typer.Option("--namespace", "-n", help="Namespace of a StagedUpdateRun.", metavar="NAME", show_default="none"),
]
WhyOption = Annotated[
    str, typer.Option("--why", help="A reason, which is recorded with it.", metavar="TEXT", show_default=False)
]

T = TypeVar("T")


async def with_runs(connection: ConnectionOptions, use: Callable[[UpdateRuns], Awaitable[T]]) -> T:
    """Open etcd, and use its update runs."""
    from wharfinger.placement.reading.update_runs import UpdateRuns

    async with connection.store() as store:
        return await use(UpdateRuns(store))
