"""The importer, whose own etcd is restored from a backup under it: what it had told since is not told again."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.kubernetes.loops.importing_stage import Site
from wharfinger.apiserver.client import PODS
from wharfinger.etcd import keys


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    """An etcd, an API server, no worker."""
    site = Site()
    yield site
    await site.close()


async def test_copies_that_a_backup_lacks_are_made_again(site: Site) -> None:
    """The backup has the importer's key as it is now, so that alone does not show that etcd was restored."""
    await site.hand()
    site.pod("kept")
    site.pod("deleted")
    await site.time.advance(3)
    told = (await site.store.get(keys.IMPORTED)).kv
    deleted = (await site.store.get(keys.pod("default", "deleted"))).kv
    assert told is not None
    assert deleted is not None
    site.pod("later")
    site.api.remove(PODS, "deleted")
    await site.time.advance(3)
    assert sorted(await site.copies()) == ["kept", "later"]

    await site.store.put(keys.IMPORTED, told.value)
    await site.store.delete(keys.pod("default", "later"))
    await site.store.put(deleted.key, deleted.value)
    await site.time.advance(10)

    assert sorted(await site.copies()) == ["kept", "later"]
    assert (await site.imported()).revisions["pods"] > 0
