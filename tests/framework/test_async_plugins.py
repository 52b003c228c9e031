"""Asynchronous plugins of a profile: which ones a pod concerns, what is called, and what could never be called."""

from __future__ import annotations

from typing import Any

import pytest

from tests.framework.conftest import MakeProfile
from wharfinger.errors import ConfigurationError, InvalidConfiguration, PluginError
from wharfinger.framework.async_plugins import BindCall, CallLimits, PluginCall, is_async
from wharfinger.framework.catalog import Catalog, CatalogEntry
from wharfinger.framework.cycle_state import CycleState
from wharfinger.framework.plugins import builtin
from wharfinger.framework.profiles import load_profiles
from wharfinger.framework.status import SUCCESS, Code, Status
from wharfinger.objects.model.pod import Pod
from wharfinger.testing.builders import node, pod, snapshot

CALL = PluginCall("key")


class Prepares:
    name = "Prepares"

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str, call: PluginCall) -> Any:
        return SUCCESS


class ForSome(Prepares):
    name = "ForSome"
    call_limits = CallLimits(deadline=20)

    def concerns(self, pod: Pod) -> bool:
        return pod.name == "web"


class Binds:
    name = "Binds"

    async def bind(self, state: CycleState, pod: Pod, node_name: str, call: BindCall) -> Status:
        return await call.bind()


def test_a_profile_without_them_calls_none(profile_of: MakeProfile) -> None:
    called = profile_of().called
    assert (called.concern(pod("web")), called.pre_binds(pod("web")), called.longest) == (False, (), 0)


def test_plugins_may_choose_their_pods(profile_of: MakeProfile) -> None:
    called = profile_of(ForSome()).called
    assert (called.concern(pod("web")), called.concern(pod("other"))) == (True, False)
    called = profile_of(Prepares(), ForSome()).called
    assert called.pre_binds(pod("web")) == ("Prepares", "ForSome")
    assert called.pre_binds(pod("other")) == ("Prepares",)
    assert (called.longest, called.limits("ForSome").deadline) == (320, 20)


def test_they_are_left_out_of_the_synchronous_points(profile_of: MakeProfile) -> None:
    profile = profile_of(Prepares(), Binds())
    assert profile.pre_bind(CycleState(), pod("web"), "n1").ok
    left = profile.bind(CycleState(), pod("web"), "n1")
    assert (left.code, left.plugin) == (Code.WAIT, "Binds")
    assert profile.bind(CycleState(), pod("web"), "n1", after="Binds").ok


def test_decisions_never_call_them(profile_of: MakeProfile) -> None:
    """A simulation, an explanation and the waker decide with the same profile."""

    class Never(Prepares):
        async def pre_bind(self, state: CycleState, pod: Pod, node_name: str, call: PluginCall) -> Any:
            raise AssertionError

    assert profile_of(Never()).evaluate(pod("web"), snapshot(node("n1"))).node == "n1"


async def test_an_answer_that_is_no_status_is_a_defect(profile_of: MakeProfile) -> None:
    class Odd(Prepares):
        async def pre_bind(self, state: CycleState, pod: Pod, node_name: str, call: PluginCall) -> Any:
            return True

    called = profile_of(Odd()).called
    where = {"state": CycleState(), "pod": pod("web"), "node_name": "n1", "plugin_call": CALL}
    with pytest.raises(PluginError, match="plugin Prepares failed in PreBind: answered True, not a Status"):
        await called.call("PreBind", "Prepares", **where)  # type: ignore[arg-type]


async def test_the_default_binder_is_there_for_bind_alone() -> None:
    async def default() -> Status:
        return SUCCESS

    assert (await BindCall("key", default=default).bind()).ok
    assert not hasattr(CALL, "bind")
    assert is_async(Binds(), "bind")
    assert not is_async(Binds(), "preBind")


# --- what cannot work -----------------------------------------------------------------------------


class AsyncFilter(Prepares):
    async def filter_node(self, state: Any, pod: Any, node: Any) -> Status:
        return SUCCESS


class Three(Prepares):
    async def pre_bind(self, state: Any, pod: Any, node_name: Any) -> Any:  # type: ignore[override]
        return SUCCESS


class Yields(Prepares):
    async def pre_bind(self, state: Any, pod: Any, node_name: Any, call: Any) -> Any:
        yield SUCCESS


class Limits(Prepares):
    call_limits = {"timeout": 5}  # noqa: RUF012 - what an author may write


@pytest.mark.parametrize(
    ("plugin", "why"),
    [
        (AsyncFilter, "filter_node is asynchronous, and only pre_bind and bind may be"),
        (Three, "pre_bind is asynchronous, so its arguments are state, pod, node_name and call"),
        (Yields, "pre_bind yields, and must return one Status"),
        (Limits, "call_limits is {'timeout': 5}, not a CallLimits"),
    ],
)
def test_a_plugin_that_cannot_be_called_is_refused_in_one_line(
    profile_of: MakeProfile, plugin: type[Prepares], why: str
) -> None:
    with pytest.raises(ConfigurationError) as raised:
        profile_of(plugin())
    assert str(raised.value) == f"plugin Prepares: {why}"


def test_a_configuration_names_it_with_everything_else_that_is_wrong() -> None:
    catalog = Catalog([*builtin.catalog(), CatalogEntry("Prepares", AsyncFilter)])
    with pytest.raises(InvalidConfiguration) as raised:
        load_profiles({"profiles": [{"plugins": {"bind": {"disabled": [{"name": "*"}]}}}]}, catalog=catalog)
    assert "profiles[0]: plugin Prepares: filter_node is asynchronous" in str(raised.value)
    assert "profiles[0].plugins.bind: at least one plugin" in str(raised.value)


@pytest.mark.parametrize("limits", [{"timeout": 0}, {"deadline": 1e6}, {"heartbeat": -1}, {"attempts": -1}])
def test_limits_have_to_be_sensible(limits: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(limits))}.* of CallLimits is"):
        CallLimits(**limits)


def configured(*, extender: bool = False, **bind: Any) -> None:
    catalog = Catalog([*builtin.catalog(), CatalogEntry("Binds", Binds)])
    verbs = {"urlPrefix": "http://extender", "bindVerb": "bind"}
    extenders = {"extenders": [verbs]} if extender else {}
    load_profiles({"profiles": [{"plugins": {"bind": bind} if bind else {}}], **extenders}, catalog=catalog)


def test_a_bind_plugin_behind_the_default_binder_is_refused() -> None:
    with pytest.raises(InvalidConfiguration) as raised:
        configured()
    assert str(raised.value) == (
        "profiles[0].plugins.bind: Binds is never called, because DefaultBinder binds every pod before it: "
        "disable DefaultBinder, or name it behind Binds"
    )
    configured(disabled=[{"name": "DefaultBinder"}])
    configured(disabled=[{"name": "*"}], enabled=[{"name": "Binds"}, {"name": "DefaultBinder"}])


def test_one_of_a_bind_plugin_and_an_extender_binds() -> None:
    with pytest.raises(InvalidConfiguration, match="Binds binds pods, and so does the extender that has a bindVerb"):
        configured(extender=True, disabled=[{"name": "DefaultBinder"}])
