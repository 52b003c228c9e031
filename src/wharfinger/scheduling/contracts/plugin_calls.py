"""What travels of asynchronous PreBind and Bind plugins: which calls are due, one call, and its answer.

::

    bind ──► Held, with steps ──► call_plugin ──► PluginAnswer      once a step; again after Wait
      ▲                                                │
      └────────────── bind, with all answers ◄─────────┘

`bind` holds the pod's room and answers `Held` while calls are due. A recorded answer is never asked for again.
"""

from __future__ import annotations

from typing import Any, Literal

from wharfinger.process.contract import Contract

CallPoint = Literal["PreBind", "Bind"]
PLUGIN_FAILED = "PluginFailed"
"""Type of the failure of `call_plugin` where the plugin raised or did not answer in time: it is called again."""
SLACK = 5.0
"""Seconds that `call_plugin` may take beside the plugin."""


class PluginStep(Contract):
    """A call that is due."""

    point: CallPoint
    plugin: str
    timeout: float
    """Seconds of one call."""
    deadline: float
    """Seconds of all calls of this step."""
    attempts: int = 0
    """How many of them may fail; 0 = any number."""
    heartbeat: float = 10.0
    """Seconds without a sign of life after which another worker makes the call."""


class Held(Contract):
    """The pod's room is held; plugins are to be called before it is bound. Then bind again, with their answers."""

    kind: Literal["held"] = "held"
    node: str
    revision: int
    """Of etcd, at or past the transaction that holds the room."""
    steps: tuple[PluginStep, ...]
    """In this order; a step whose answer is neither success nor Skip is the last one."""
    notes: tuple[str, ...] = ()


class PluginAnswer(Contract):
    """What became of one step."""

    kind: Literal["plugin"] = "plugin"
    point: CallPoint
    plugin: str
    code: Literal["success", "skip", "wait", "refused", "error", "lost", "cancelled"]
    """`lost`: the room is not held any more; `cancelled`: the attempt was."""
    message: str = ""
    """The reasons, or the error."""
    data: Any = None
    """What the plugin carries from here on, JSON of at most 1 KiB; None = as before."""

    @property
    def done(self) -> bool:
        """Whether the next step may follow."""
        return self.code in ("success", "skip")


class CallsMade(Contract):
    """The answers of one attempt so far."""

    node: str
    """Where the room is held."""
    answers: tuple[PluginAnswer, ...] = ()
    by_default: bool = False
    """Whether the Bind plugin that is being called has the default binder bind the pod."""

    def with_one(self, answer: PluginAnswer) -> CallsMade:
        """These answers and one more."""
        return self.model_copy(update={"answers": (*self.answers, answer)})

    def has(self, point: CallPoint, plugin: str) -> bool:
        """Whether that step is done."""
        return any(one.done and (one.point, one.plugin) == (point, plugin) for one in self.answers)

    @property
    def failed(self) -> PluginAnswer | None:
        """The answer that ends the placement; None while there is none."""
        return next((one for one in self.answers if not one.done), None)

    @property
    def bound_by(self) -> str:
        """The Bind plugin that says that it has bound the pod; empty for none."""
        return next((one.plugin for one in self.answers if one.point == "Bind" and one.code == "success"), "")

    @property
    def skipped_binder(self) -> str:
        """The last Bind plugin that skipped the pod; empty for none."""
        skipped = [one.plugin for one in self.answers if one.point == "Bind" and one.code == "skip"]
        return skipped[-1] if skipped else ""

    def data(self, placed: dict[str, Any]) -> dict[str, Any]:
        """What plugins carry by now. `placed`: what they carried when the pod was placed."""
        return {**placed, **{one.plugin: one.data for one in self.answers if one.data is not None}}


NO_CALLS = CallsMade(node="")


def first_answers(held: Held) -> CallsMade:
    """No answer yet, for a room that is held."""
    return CallsMade(node=held.node)
