"""What the workflows of placements share: their search attributes, and how one goes on as a new run."""

from __future__ import annotations

from typing import Any, NoReturn

from temporalio import workflow
from temporalio.common import SearchAttributeKey, SearchAttributePair, TypedSearchAttributes

from wharfinger.placement.contracts.placements import placement_retry
from wharfinger.process.names import SEARCH_OUTCOME, SEARCH_PLACEMENT, placement_attribute

OUTCOME_KEY = SearchAttributeKey.for_keyword(SEARCH_OUTCOME)
PLACEMENT_KEY = SearchAttributeKey.for_keyword(SEARCH_PLACEMENT)


def go_on(reference: str, request: Any) -> NoReturn:
    """Continue as a new run, with the retry policy of placements, found by the placement."""
    attributes = TypedSearchAttributes(
        [
            *(pair for pair in workflow.info().typed_search_attributes if pair.key != PLACEMENT_KEY),
            SearchAttributePair(PLACEMENT_KEY, placement_attribute(reference)),
        ]
    )
    workflow.continue_as_new(request, retry_policy=placement_retry(), search_attributes=attributes)
