"""What names of objects may be, and the names that wharfinger itself writes into objects.

Rules as in Kubernetes (RFC 1123 labels and subdomains). Workflow ids and task queues are
`contracts.names`.
"""

from __future__ import annotations

import re

ATTEMPT_ANNOTATION = "wharfinger.dev/attempt"
"""On a bound pod: `<workflow id>@<run id>` of the attempt that bound it."""
UID_LIMIT = 64
"""Characters of a uid that a workflow id can hold; longer uids make an object invalid."""

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_SUBDOMAIN_LIMIT = 253


def is_dns_label(text: str) -> bool:
    """Lower case letters, digits and dashes, at most 63, no dash at the ends."""
    return _LABEL.fullmatch(text) is not None


def is_dns_subdomain(text: str) -> bool:
    """Lower-case labels joined by dots, at most 253 characters: a name of most objects."""
    return len(text) <= _SUBDOMAIN_LIMIT and _SUBDOMAIN.fullmatch(text) is not None
