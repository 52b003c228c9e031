"""What may go wrong between a client and an API server in memory, for chosen requests.

::

    faults.lose_answers(verb="create", subresource="binding")      done, but the answer is lost
    faults.refuse(503, "overloaded", times=2)                      not done; a writer cannot tell
    faults.refuse(400, "admission webhook denied the request", subresource="binding", times=None)
    faults.throttle(2.0)                                           429 with Retry-After
    faults.disconnect()                                            no connection could be opened
    faults.forbid("create", PODS, "binding")                       403, until it ends
    faults.deny()                                                  401, also with credentials that were read again
    gate = faults.hold(verb="get", resource=PODS)                  the answer, as of now, comes when the gate opens

A fault counts for the next `times` requests that it means; None = for all until `end` is called.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TypedDict, Unpack

from wharfinger.apiserver.client import ApiCall, ApiResource


class WhichRequests(TypedDict, total=False):
    """The requests that a fault is for; what is left out means any."""

    verb: str
    """As in `ApiCall`."""
    resource: ApiResource | None
    subresource: str | None
    """"" = requests of the object itself."""
    name: str


@dataclass
class MemoryFault:
    """A fault, the requests that it is for, and how many of them are left."""

    times: int | None
    verb: str = ""
    resource: ApiResource | None = None
    subresource: str | None = None
    name: str = ""
    code: int = 0
    """HTTP's, where the server answers; 0 = no answer."""
    message: str = ""
    reason: str = ""
    retry_after: float | None = None
    applied: bool = False
    """Whether the request is carried out before its answer is lost."""
    sent: bool = True
    """Whether the request may have reached the server."""
    gate: Gate | None = None

    def means(self, request: ApiCall) -> bool:
        """Whether it is for this request."""
        return (
            self.times != 0
            and self.verb in {"", request.verb}
            and self.resource in {None, request.resource}
            and self.subresource in {None, request.subresource}
            and self.name in {"", request.name}
        )

    def end(self) -> None:
        """It counts no more."""
        self.times = 0


@dataclass
class Gate:
    """Where answers wait."""

    before: bool = False
    """Whether requests wait before they are carried out, instead of after."""
    _arrived: asyncio.Event = field(default_factory=asyncio.Event)
    _open: asyncio.Event = field(default_factory=asyncio.Event)
    _broken: bool = False

    async def reached(self) -> None:
        """Wait until a request waits here."""
        await self._arrived.wait()

    def open(self) -> None:
        """Let all go on."""
        self._open.set()

    def break_off(self) -> None:
        """Let all go on without an answer, as when their deadline is over."""
        self._broken = True
        self._open.set()

    async def passed(self) -> bool:
        """Wait; whether an answer comes."""
        self._arrived.set()
        await self._open.wait()
        return not self._broken


class MemoryFaults:
    """The faults of one client."""

    def __init__(self) -> None:
        self._faults: list[MemoryFault] = []

    def lose_answers(self, times: int | None = 1, **which: Unpack[WhichRequests]) -> MemoryFault:
        """Requests are carried out, and their answers are lost."""
        return self._add(MemoryFault(times, **which, applied=True))

    def disconnect(self, times: int | None = 1, **which: Unpack[WhichRequests]) -> MemoryFault:
        """No connection can be opened: requests are certainly not carried out."""
        return self._add(MemoryFault(times, **which, sent=False))

    def refuse(
        self,
        code: int,
        message: str = "",
        *,
        reason: str = "",
        times: int | None = 1,
        **which: Unpack[WhichRequests],
    ) -> MemoryFault:
        """The server, or a webhook, answers with a code of 400 or more, and does nothing."""
        return self._add(MemoryFault(times, **which, code=code, message=message, reason=reason))

    def throttle(
        self,
        retry_after: float | None = 1.0,
        *,
        times: int | None = 1,
        **which: Unpack[WhichRequests],
    ) -> MemoryFault:
        """429, perhaps with `Retry-After` in seconds."""
        text = "too many requests, please try again later"
        fault = MemoryFault(times, **which, code=429, message=text, reason="TooManyRequests", retry_after=retry_after)
        return self._add(fault)

    def deny(self, times: int | None = None) -> MemoryFault:
        """401: who we are is not accepted."""
        return self._add(MemoryFault(times, code=401, message="Unauthorized", reason="Unauthorized"))

    def forbid(self, verb: str, resource: ApiResource, subresource: str = "") -> MemoryFault:
        """403: the user may not do that; reviews of its own access show it."""
        return self._add(MemoryFault(None, verb, resource, subresource, code=403))

    def hold(self, times: int | None = 1, *, before: bool = False, **which: Unpack[WhichRequests]) -> Gate:
        """Requests wait at a gate: with their answer, or before they are carried out."""
        gate = Gate(before)
        self._add(MemoryFault(times, **which, gate=gate))
        return gate

    def clear(self) -> None:
        """No more faults; gates open."""
        for fault in self._faults:
            if fault.gate is not None:
                fault.gate.open()
        self._faults.clear()

    def of(self, request: ApiCall) -> tuple[MemoryFault | None, list[Gate]]:
        """The fault that a request meets, if any, and the gates on its way."""
        gates: list[Gate] = []
        met: MemoryFault | None = None
        for fault in self._faults:
            if not fault.means(request) or (met is not None and fault.gate is None):
                continue
            if fault.times is not None:
                fault.times -= 1
            if fault.gate is not None:
                gates.append(fault.gate)
            else:
                met = fault
        self._faults = [fault for fault in self._faults if fault.times != 0]
        return met, gates

    def forbidden(self, verb: str, group: str, plural: str, subresource: str) -> bool:
        """Whether `forbid` counts for this."""
        return any(
            fault.code == 403
            and fault.times is None
            and fault.resource is not None
            and (fault.verb, fault.resource.group, fault.resource.plural, fault.subresource)
            == (verb, group, plural, subresource)
            for fault in self._faults
        )

    def _add(self, fault: MemoryFault) -> MemoryFault:
        self._faults.append(fault)
        return fault
