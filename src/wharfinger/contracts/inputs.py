"""Reading a workflow's input, whoever wrote it."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import ValidationError
from temporalio.exceptions import ApplicationError

from wharfinger.contracts.attempts import FailureType
from wharfinger.contracts.contract import Contract

T = TypeVar("T", bound=Contract)
PROBLEM_LIMIT = 1024
"""Characters of what is said to be wrong."""


def parsed(kind: type[T], request: Any, wanted: str) -> T:
    """The input; otherwise the run fails for good, with one line that says why."""
    try:
        return kind.model_validate(request)
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, one['loc'])) or 'input'}: {one['msg']}" for one in error.errors())
        raise ApplicationError(
            f"the input must be {wanted} ({problems[:PROBLEM_LIMIT]})",
            type=FailureType.INVALID_INPUT,
            non_retryable=True,
        ) from None
