"""The refusals of an API server, in its own words: codes, reasons and texts of Kubernetes 1.36."""

from __future__ import annotations

from wharfinger.apiserver.client import ApiAnswer, ApiResource
from wharfinger.testing.memory_kinds import qualified

_MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"


def not_found(resource: ApiResource, name: str) -> ApiAnswer:
    """There is no such object."""
    return ApiAnswer(404, None, "NotFound", f'{qualified(resource)} "{name}" not found')


def not_served() -> ApiAnswer:
    """There is no such kind."""
    return ApiAnswer(404, None, "NotFound", "the server could not find the requested resource")


def no_page() -> ApiAnswer:
    """There is no such group or path."""
    return ApiAnswer(404, None, "NotFound", "404 page not found")


def exists(resource: ApiResource, name: str) -> ApiAnswer:
    """Another object has the name."""
    return ApiAnswer(409, None, "AlreadyExists", f'{qualified(resource)} "{name}" already exists')


def bad_request(message: str) -> ApiAnswer:
    """The request contradicts itself."""
    return ApiAnswer(400, None, "BadRequest", message)


def invalid(kind: str, name: str, message: str) -> ApiAnswer:
    """The object may not be as the request has it."""
    return ApiAnswer(422, None, "Invalid", f'{kind} "{name}" is invalid: {message}')


def conflict(what: str, name: str, why: str = _MODIFIED) -> ApiAnswer:
    """The object is not, or no longer, what the request assumes."""
    return ApiAnswer(409, None, "Conflict", f'Operation cannot be fulfilled on {what} "{name}": {why}')


def precondition(resource: ApiResource, namespace: str, name: str, *, field: str, wanted: str, found: str) -> ApiAnswer:
    """A uid or resourceVersion that the request gives is not the object's, found by the storage."""
    place = "/".join(part for part in (resource.plural, namespace, name) if part)
    return conflict(
        qualified(resource),
        name,
        f"StorageError: invalid object, Code: 4, Key: /registry/{place}, ResourceVersion: 0, AdditionalErrorMsg: "
        f"Precondition failed: {field} in precondition: {wanted}, {field} in object meta: {found}",
    )


def forbidden(user: str, verb: str, resource: ApiResource, *, namespace: str, name: str, subresource: str) -> ApiAnswer:
    """The user may not do that."""
    what = f"{resource.plural}/{subresource}" if subresource else resource.plural
    where = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
    named = f'{qualified(resource)} "{name}" is' if name else f"{qualified(resource)} is"
    message = (
        f'{named} forbidden: User "{user}" cannot {verb} resource "{what}" in API group "{resource.group}" {where}'
    )
    return ApiAnswer(403, None, "Forbidden", message)
