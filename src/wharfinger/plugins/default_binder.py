"""DefaultBinder: binds by the one etcd transaction of the activity `bind`.

The plugin only says that this transaction may go out; another Bind plugin before it could refuse.
"""

from __future__ import annotations

from collections.abc import Sequence

from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.interface import Bind, EventHint, QueueingHints
from wharfinger.framework.status import SUCCESS, Status
from wharfinger.model.pod import Pod
from wharfinger.plugins import names


class DefaultBinder(Bind, QueueingHints):
    """Lets every pod be bound."""

    name = names.DEFAULT_BINDER

    def bind(self, state: CycleState, pod: Pod, node_name: str) -> Status:  # noqa: ARG002
        """Always success."""
        return SUCCESS

    def queueing_hints(self) -> Sequence[EventHint]:
        """Refuses nothing, so nothing helps."""
        return ()
