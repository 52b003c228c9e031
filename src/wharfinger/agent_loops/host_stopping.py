"""How an agent ends together with its instances, where an option says so. Usually they go on alone."""

from __future__ import annotations

import asyncio
import logging

from wharfinger.agent_loops.host_exits import HostExits
from wharfinger.runtime.runtime import InstanceId, Runtime

log = logging.getLogger(__name__)

RECORDED_WITHIN = 2.0
"""Seconds in which etcd may take the ends of instances; then the next agent writes them."""


async def end_instances(runtime: Runtime, exits: HostExits, timeout: float) -> None:
    """SIGTERM to all, SIGKILL after `timeout` seconds, and a moment for their exit records."""
    running = [process.id for process in runtime.running()]
    exits.expect(running)

    async def end(instance: InstanceId) -> None:
        await runtime.terminate(instance)
        if not await runtime.wait(instance, timeout):
            log.warning("instance_killed reason=did_not_end_in_time instance=%s", instance)
            await runtime.kill(instance)
            await runtime.wait(instance, RECORDED_WITHIN)

    await asyncio.gather(*map(end, running))
    try:
        async with asyncio.timeout(RECORDED_WITHIN):
            while exits.waiting:  # noqa: ASYNC110 - the end is near
                await asyncio.sleep(0.05)
    except TimeoutError:
        log.warning("exits_not_recorded effect=left_to_the_next_agent instances=%d", exits.waiting)
