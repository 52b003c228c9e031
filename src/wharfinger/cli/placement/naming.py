"""The argument and the option by which commands name a placement."""

from __future__ import annotations

from typing import Annotated

import typer

PlacementArgument = Annotated[
    str, typer.Argument(help="Which: NAME, NAME with -n, cluster/NAME or ns/NAMESPACE/NAME.", metavar="PLACEMENT")
]
NamespaceOption = Annotated[
    str,
    typer.Option("--namespace", "-n", help="Namespace of a ResourcePlacement.", metavar="NAME", show_default="none"),
]
