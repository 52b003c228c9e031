"""The errors in a workflow's own code that fail its run."""

from __future__ import annotations

BUGS: tuple[type[Exception], ...] = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    NameError,
    NotImplementedError,
    RecursionError,
    TimeoutError,
    TypeError,
    ValueError,
)
"""A bug fails the run, and the retry policy starts the next one. Every other error fails the workflow task only, which
Temporal repeats until a worker can continue the run.

`temporalio.workflow.NondeterminismError` must never be among them or below one of them: it means that a worker's code
does not fit the run's history, so the deployment is wrong and not the run. The SDK raises plain `RuntimeError`s when
a history and its own state do not fit, so these are omitted too. A payload that cannot be read is a `ValueError`.
"""
