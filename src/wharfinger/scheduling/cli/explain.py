"""`wharfinger explain`: every recorded attempt of a pod, and what it waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from wharfinger.cli.objects.naming import pod_key
from wharfinger.cli.options import ConnectionOptions, configured, namespace_option
from wharfinger.cli.output import Output, OutputOption, show_answer
from wharfinger.errors import InvalidObject, NotFound, ServerError, UsageError
from wharfinger.objects.documents import kinds
from wharfinger.objects.documents.kinds import POD
from wharfinger.objects.model.pod import PodKey
from wharfinger.process.installation_record import has_copies
from wharfinger.process.stored_objects import doubts
from wharfinger.scheduling.reading.held_back import gates, unserved
from wharfinger.scheduling.reading.pods_and_nodes import attempt_records, held_member, one_pod
from wharfinger.scheduling.reading.promised_pods import promise_of, story

if TYPE_CHECKING:
    from temporalio.client import Client

    from wharfinger.etcd.store import Store
    from wharfinger.scheduling.reading.explanation import Explanation
    from wharfinger.scheduling.reading.history import Attempt

LOOKS_FOR = 10.0
"""Seconds within which it is to be found for whom a pod left."""
LAST = 20
"""Attempts that are looked at for the newest decision."""
EVERY = 1000
"""Attempts that are looked at for one of a certain number."""


@configured
async def explain(
    kind: Annotated[str, typer.Argument(help="Only pods are scheduled.", metavar="pod")],
    name: Annotated[str, typer.Argument(help="The pod.", metavar="NS/NAME", show_default=False)] = "",
    *,
    namespace: Annotated[str, namespace_option("Namespace, when only a name is given.")] = "default",
    attempts: Annotated[
        int, typer.Option("--attempts", help="How many to show, the newest.", min=1, max=1000, metavar="N")
    ] = 20,
    nodes: Annotated[
        bool,
        typer.Option("--nodes", help="Decide again from etcd, and show the verdict of every plugin on every node."),
    ] = False,
    attempt: Annotated[
        int | None,
        typer.Option(
            "--attempt", help="With --nodes: which attempt, else the newest that decided.", min=1, metavar="N"
        ),
    ] = None,
    output: OutputOption = Output.TABLE,
    connection: ConnectionOptions,
) -> None:
    """Explain why a pod is where it is, or still waits: from its recorded attempts.

    With --nodes the recorded decision is made again on the state of its revision, and compared with the record. That
    fails once etcd has compacted the revision. -o json then: pod, attempt, runId, revision, profile, profileName,
    approximate, same (null: it cannot be told), differs, lacks (why it cannot be told), recorded and recomputed (node,
    score, nominatedNode, victims, rejectors, message), filters, skippedFilters, scores, nodes (node, examined,
    feasible, filters: plugin to verdict passes|refuses|skipped|notAsked and reasons, scores, total), notes.
    """
    if not name:
        given = "NS/NAME" if kinds.is_word(kind) else kind[:300]
        raise UsageError(f"give the kind and the name: explain pod {given}")
    if (found := kinds.by_word(kind)) is not POD:
        raise UsageError(f"only pods are scheduled, not {kind!r}: see `wharfinger describe {found.singular} {name}`")
    key = pod_key(name, namespace)
    if attempt is not None and not nodes:
        raise UsageError("--attempt goes with --nodes; without, the newest attempts are shown")
    if nodes:
        await _explain_nodes(connection, key, attempt, output)
    else:
        await _explain(connection, key, attempts, output)


async def _explain(connection: ConnectionOptions, key: PodKey, limit: int, output: Output) -> None:
    from wharfinger.cli.connect import open_temporal
    from wharfinger.scheduling.cli.story import tell
    from wharfinger.scheduling.reading.attempts import explain_pod
    from wharfinger.scheduling.reading.explanation import to_plain

    async with connection.store() as store:
        client = await open_temporal(connection)
        found = await explain_pod(client, store, cluster=connection.cluster, key=key, limit=limit)
        if found.state == "pending":
            found = replace(found, held=await held_back(store, key), doubts=doubts(await one_pod(store, *key)))
        if found.state in ("pending", "bound") and await has_copies(store):
            found = await with_promise(store, key, found)
        if found.state in ("deleted", "terminating") and found.attempts:
            found = await with_departure(client, store, connection.cluster, key, found)
    if found.state == "deleted" and not found.attempts:
        raise NotFound(f"there is no pod {key}, and Temporal keeps no attempt of one")
    show_answer(output, lambda: to_plain(found), lambda: tell(found))


async def with_promise(store: Store, key: PodKey, found: Explanation) -> Explanation:
    """The same, with what the Kubernetes API shows of the pod."""
    from wharfinger.scheduling.reading.explanation import PROMISED

    entry, promise = await one_pod(store, *key), await promise_of(store, key)
    if entry.pod is None:
        return found
    state = PROMISED if promise is not None and found.state == "bound" else found.state
    return replace(found, state=state, kubernetes=story(entry.pod, found.record, promise))


async def with_departure(client: Client, store: Store, cluster: str, key: PodKey, found: Explanation) -> Explanation:
    """The same, with for whom the pod left, or has to leave."""
    from wharfinger.scheduling.reading.attempts import explain_pod
    from wharfinger.scheduling.reading.preempted import PreemptedPods

    async def recorded(other: PodKey) -> Sequence[Attempt]:
        try:
            return (await explain_pod(client, store, cluster=cluster, key=other)).attempts
        except (ServerError, InvalidObject):
            return ()

    async def nominated(node: str) -> list[PodKey]:
        there = {one: record.nominated_node for one, record in (await attempt_records(store)).items()}
        return [one for one, where in there.items() if where and node in ("", where)]

    async def connect() -> Client:
        return client

    preempted = PreemptedPods(store, connect, cluster=cluster, recorded=recorded, nominated=nominated)
    try:
        async with asyncio.timeout(LOOKS_FOR):
            left, unknown = await preempted.left(key, found.attempts)
    except TimeoutError:
        left, unknown = None, f"finding out took longer than {LOOKS_FOR:g} s"
    return replace(found, left=left, left_unknown=unknown or "" if found.state == "deleted" else "")


async def held_back(store: Store, key: PodKey) -> str:
    """Why nothing is tried for the pod; empty when something is."""
    pod = (await one_pod(store, *key)).pod
    if pod is None:
        return ""
    reason = (await unserved(store, [pod])).get(pod.key)
    if reason is not None and reason.by_name:
        return reason.sentence
    return gates(pod) or await held_member(store, pod)


async def _explain_nodes(connection: ConnectionOptions, key: PodKey, number: int | None, output: Output) -> None:
    from wharfinger.cli.connect import open_temporal
    from wharfinger.framework.profiles import load_profiles
    from wharfinger.scheduling.cli.story import tell_verdicts
    from wharfinger.scheduling.reading import deciding_again
    from wharfinger.scheduling.reading.attempts import explain_pod
    from wharfinger.scheduling.reading.remaking import limits_of

    async with connection.store() as store:
        client = await open_temporal(connection)
        limit = LAST if number is None else EVERY
        found = await explain_pod(client, store, cluster=connection.cluster, key=key, limit=limit)
        if found.state == "deleted" and not found.attempts:
            raise NotFound(f"there is no pod {key}, and Temporal keeps no attempt of one")
        attempt, decision = deciding_again.decision_of(found.attempts, key, number)
        limits = limits_of(connection.etcd)
        again = await deciding_again.decide_again(store, decision, load_profiles, limits=limits)
    show_answer(output, lambda: deciding_again.to_plain(attempt, again), lambda: tell_verdicts(attempt, again))
