"""Forms that requests carry. The page changes something only by one that has a reason and repeats the name.

What is done (`--allow-actions`) is noted under the viewer's name.
"""

from __future__ import annotations

import logging
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from wharfinger.page.follow.plain import text
from wharfinger.page.web.inputs import BadInput

log = logging.getLogger(__name__)

M = TypeVar("M", bound=BaseModel)


class ActionForm(BaseModel):
    """What every action has to carry."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, str_strip_whitespace=True)

    reason: Annotated[str, Field(min_length=1, max_length=200)]
    confirm: Annotated[str, Field(min_length=1, max_length=253)]
    """The name of what is changed, again."""
    stage: Annotated[str, Field(max_length=63)] = ""
    """Of an update run: which stage is approved."""
    when: Literal["before", "after"] = "before"
    """Whether the stage may start, or end."""


def read_form(kind: type[M], body: bytes) -> M:
    """A form of this kind. Raises `BadInput`, which says where it is wrong."""
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        raise BadInput(f"{text('.'.join(map(str, first['loc'])) or 'the form')}: {first['msg']}") from None


def confirmed(body: bytes, name: str) -> ActionForm:
    """The form of an action on what has that name. Raises `BadInput`."""
    form = read_form(ActionForm, body)
    if form.confirm != name:
        raise BadInput(f"confirm: repeat the name {text(name)}")
    return form


def done(about: str, form: ActionForm, who: str, *, written: bool, sentence: str) -> dict[str, Any]:
    """Note that an action was carried out, and tell it. `about`: the verb, and on what: `pause fleet=prod`."""
    log.info("action_done action=%s who=%r why=%r written=%s", about, who, form.reason, written)
    return {"written": written, "sentence": text(sentence)}
