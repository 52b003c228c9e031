"""Asynchronous PreBind and Bind plugins on a real Kubernetes API: workers are killed in the middle of their calls."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.dev_tree import wait_until
from tests.integration.plugin_desk import PluginDesk
from tests.kubernetes.judge import PodHistory
from tests.kubernetes.settled import all_bound, until_settled
from tests.kubernetes.site import Installation, KubernetesSite

pytestmark = [pytest.mark.servers, pytest.mark.timeout(240)]

CRANE = '''

class Crane:
    """Binds pods with the label `crane`: by its own request, and then may die before it says so."""

    name = "Crane"
    call_limits = LIMITS

    def concerns(self, pod):
        return "crane" in pod.labels

    async def bind(self, state, pod, node_name, call):
        note(bind=pod.name, key=call.key, attempt=call.attempt, worker=os.getpid())
        if pod.labels["crane"] == "default":
            return await call.bind()
        status = await asyncio.to_thread(self.post, pod, call.binding)
        note(bound=pod.name)
        await hang()
        return status

    def post(self, pod, body):
        from wharfinger.apiserver.kubeconfig import read_access
        from wharfinger.apiserver.transport import ApiLimits, HttpApiClient
        from wharfinger.apiserver.client import PODS

        async def send():
            api = HttpApiClient(read_access(Path(os.environ["CRANE_KUBECONFIG"])), ApiLimits(qps=-1.0))
            try:
                return await api.create(PODS, body, namespace=pod.namespace, name=pod.name, subresource="binding")
            finally:
                await api.close()

        answer = asyncio.run(send())
        return SUCCESS if answer.done else unschedulable(answer.message)
'''


@pytest.fixture
def desk(site: KubernetesSite, tmp_path: Path) -> PluginDesk:
    return PluginDesk(tmp_path, CRANE, CRANE_KUBECONFIG=str(site.api.kubeconfig))


def test_a_call_that_died_with_its_worker_is_made_by_another(
    site: KubernetesSite, room: dict[str, int], installation: Installation, history: PodHistory, desk: PluginDesk
) -> None:
    """The promise is not sent while the plugin is called; its room is held."""
    option = f"--config={desk.config(crane=True)}"
    worker = installation.start_worker(option, env=desk.environment, folder=desk.site)
    desk.put("hangs")
    site.create_pods(["web"], labels={"licence": "yes"})
    site.create_pods(["plain"])
    wait_until(lambda: len(desk.noted("pre_bind")) == 1, 40, "the plugin is called")
    wait_until(lambda: site.unbound() == ["web"], 40, "pods without a licence are bound")
    promise = installation.promises()["web"]
    assert (promise["ready"], promise["calls"]) == (False, ["PreBind/Licences"])

    installation.kill_workers(worker)
    installation.start_worker(option, env=desk.environment, folder=desk.site)
    wait_until(lambda: len(desk.noted("pre_bind")) == 2, 60, "another worker calls the plugin")
    assert site.unbound() == ["web"]
    desk.take("hangs")
    until_settled(site, [installation], history, room)

    calls = desk.noted("pre_bind")
    assert len({one["key"] for one in calls}) == 1
    assert len({one["worker"] for one in calls}) == 2
    assert site.pods()["web"]["spec"]["nodeName"] == calls[0]["node"]
    assert history.now["web"].attempt
    assert desk.noted("unreserved") == []


def test_a_refusal_gives_the_promise_up_and_is_told(
    site: KubernetesSite, room: dict[str, int], installation: Installation, history: PodHistory, desk: PluginDesk
) -> None:
    desk.put("refuses")
    installation.start_worker(f"--config={desk.config(crane=True)}", env=desk.environment, folder=desk.site)
    site.create_pods(["web"], labels={"licence": "yes"})

    def said() -> dict[str, str]:
        found = site.pods()["web"]["status"].get("conditions", ())
        return next((one for one in found if one["type"] == "PodScheduled"), {})

    wait_until(lambda: said().get("message") == "no licence is free", 40, "the condition says why")
    assert said()["reason"] == "Unschedulable"
    wait_until(lambda: installation.promises() == {}, 20, "nothing is promised")
    assert [one["unreserved"] for one in desk.noted("unreserved")][:1] == ["web"]

    calls = len(desk.noted("pre_bind"))
    desk.take("refuses")
    site.create_pods(["other"])  # an event that may help it: the plugin has no hints
    until_settled(site, [installation], history, room)
    assert len(desk.noted("pre_bind")) == calls + 1


def test_a_bind_whose_worker_dies_afterwards_is_made_once(
    site: KubernetesSite, room: dict[str, int], installation: Installation, history: PodHistory, desk: PluginDesk
) -> None:
    """The plugin has bound the pod by its own request; its worker is killed before it says so."""
    option = f"--config={desk.config(crane=True)}"
    worker = installation.start_worker(option, env=desk.environment, folder=desk.site)
    desk.put("hangs")
    site.create_pods(["lifted"], labels={"crane": "own"})
    site.create_pods(["usual"], labels={"crane": "default"})
    wait_until(lambda: desk.noted("bound"), 40, "the plugin has bound it")
    wait_until(lambda: all_bound(site, history), 40, "both are bound in the API")

    installation.kill_workers(worker)
    desk.take("hangs")
    installation.start_worker(option, env=desk.environment, folder=desk.site)
    wait_until(lambda: installation.open_workflows() == [], 60, "the attempt has ended")
    until_settled(site, [installation], history, room)
    assert sorted(one["bind"] for one in desk.noted("bind")) == ["lifted", "usual"]
    assert all(history.now[name].attempt for name in ("lifted", "usual"))
