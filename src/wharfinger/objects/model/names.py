"""What names of objects may be, and the names that wharfinger itself writes into objects.

Rules as in Kubernetes (RFC 1123 labels and subdomains). Workflow ids and task queues are
`process.names`.
"""

from __future__ import annotations

import re

ATTEMPT_ANNOTATION = "wharfinger.dev/attempt"
"""On a bound pod: `<workflow id>@<run id>` of the attempt that bound it."""
COMMON = "common"
"""Where a tenant's name could stand: the pool of all pods whose tenant has no fleet of its own."""
RESERVED_TENANTS = frozenset({COMMON, "control", "host", "default"})
"""Names that no tenant may have."""
UID_LIMIT = 64
"""Characters of a uid that a workflow id can hold; longer uids make an object invalid."""

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_SUBDOMAIN_LIMIT = 253
_QUALIFIED = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


def is_dns_label(text: str) -> bool:
    """Lower case letters, digits and dashes, at most 63, no dash at the ends."""
    return _LABEL.fullmatch(text) is not None


def is_qualified_name(text: str) -> bool:
    """A label's key or a resource: a name of at most 63 characters, perhaps behind a subdomain and a slash."""
    prefix, slash, name = text.rpartition("/")
    return _QUALIFIED.fullmatch(name) is not None and (not slash or is_dns_subdomain(prefix))


def is_label_value(text: str) -> bool:
    """Empty, or a name of at most 63 characters."""
    return not text or _QUALIFIED.fullmatch(text) is not None


def is_dns_subdomain(text: str) -> bool:
    """Lower-case labels joined by dots, at most 253 characters: a name of most objects."""
    return len(text) <= _SUBDOMAIN_LIMIT and _SUBDOMAIN.fullmatch(text) is not None
