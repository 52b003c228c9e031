"""What a worker makes sure of before it serves."""

from __future__ import annotations

import random

import pytest

from tests.programs.conftest import Site
from wharfinger.errors import InstallationMismatch
from wharfinger.etcd import keys
from wharfinger.framework.profiles import load_profiles
from wharfinger.process.installation import claim, keep_profiles, prepare, register_search_attributes
from wharfinger.process.parts import ProcessParts
from wharfinger.testing.memory_store import MemoryStore


async def test_the_first_worker_claims_the_store_and_later_ones_agree() -> None:
    store = MemoryStore()
    await claim(store, cluster="prod", namespace="default")
    await claim(store, cluster="prod", namespace="default")

    assert (await store.get(keys.INSTALLATION)).kv is not None


@pytest.mark.parametrize(("cluster", "namespace"), [("test", "default"), ("prod", "other")])
async def test_another_cluster_or_namespace_is_refused_by_name(cluster: str, namespace: str) -> None:
    store = MemoryStore()
    await claim(store, cluster="prod", namespace="default")

    with pytest.raises(InstallationMismatch, match=f"'prod'.*'default'.*'{cluster}'.*'{namespace}'"):
        await claim(store, cluster=cluster, namespace=namespace)


async def test_a_store_of_something_else_is_refused() -> None:
    store = MemoryStore()
    await store.put(keys.INSTALLATION, b"hello")

    with pytest.raises(InstallationMismatch, match="cannot be read"):
        await claim(store, cluster="prod", namespace="default")


async def test_a_profile_is_kept_under_its_digest_and_never_rewritten() -> None:
    store = MemoryStore()
    (profile,) = load_profiles().values()
    await keep_profiles(store, [profile, profile])
    await keep_profiles(store, [profile])
    kept = (await store.get(keys.profile(profile.digest))).kv

    assert kept is not None
    assert kept.value == profile.configuration
    assert kept.create_revision == kept.mod_revision


async def test_search_attributes_can_be_registered_again_and_again(site: Site) -> None:
    await register_search_attributes(site.client)
    await register_search_attributes(site.client)


async def test_preparing_waits_out_an_outage(site: Site) -> None:
    store = MemoryStore()
    store.fail_next(applied=False)
    process = ProcessParts(store, rng=random.Random(1))
    await prepare(process, site.client, cluster="prod", profiles=load_profiles().values())

    assert (await store.get(keys.INSTALLATION)).kv is not None
