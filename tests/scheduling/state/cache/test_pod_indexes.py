"""Objects of pending pods come back byte for byte, however they are kept."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from wharfinger.objects.model.pod import Pod, PodKey
from wharfinger.scheduling.state.cache import pod_indexes
from wharfinger.scheduling.state.cache.pod_indexes import RawPods
from wharfinger.testing.builders import pod

PODS = [
    replace(pod(f"web-{number}"), controller=("ReplicaSet", f"web-{number % 2}") if number % 3 else None)
    for number in range(8)
]
STEPS = st.lists(st.tuples(st.sampled_from(PODS), st.none() | st.binary(max_size=60)), max_size=40)


@given(STEPS, st.sampled_from([0, 50, 10**6]))
def test_each_pod_has_its_newest_object(steps: list[tuple[Pod, bytes | None]], plain: int) -> None:
    kept, expected = RawPods(plain), dict[PodKey, bytes]()
    for one, raw in steps:
        if raw is None:
            kept.discard(one.key)
            expected.pop(one.key, None)
        else:
            kept.put(one, raw)
            expected[one.key] = raw

        assert {each.key: kept.get(each.key) for each in PODS} == {each.key: expected.get(each.key) for each in PODS}


def test_a_deep_backlog_of_one_controller_takes_a_tenth_of_its_room() -> None:
    kept = RawPods(plain=0)
    objects = {}
    for number in range(50):
        one = replace(pod(f"web-{number}"), controller=("ReplicaSet", "web"))
        filling = " ".join(str(each * 7919) for each in range(200))
        objects[one.key] = f'{{"metadata":{{"name":"{one.name}"}},"spec":"{filling}"}}'.encode()
        kept.put(one, objects[one.key])

    assert {key: kept.get(key) for key in objects} == objects
    assert sum(len(packed.deflated) for packed in kept._packed.values()) * 10 < sum(map(len, objects.values()))
    assert len(kept._templates) == 1


def test_a_short_one_is_kept_as_it_is() -> None:
    kept = RawPods(plain=10)
    kept.put(PODS[0], raw := bytes(10))
    kept.put(PODS[1], bytes(1))

    assert kept.get(PODS[0].key) is raw
    assert list(kept._packed) == [PODS[1].key]

    kept.discard(PODS[0].key)
    kept.put(PODS[2], bytes(9))
    assert list(kept._plain) == [PODS[2].key]


def test_however_many_controllers_there_are_templates_are_few() -> None:
    kept = RawPods(plain=0)
    for number in range(pod_indexes.TEMPLATES + 100):
        kept.put(replace(pod(f"p-{number}"), controller=("Job", str(number))), str(number).encode())

    assert len(kept._templates) == pod_indexes.TEMPLATES
    assert kept.get(PodKey("default", f"p-{pod_indexes.TEMPLATES + 50}")) == str(pod_indexes.TEMPLATES + 50).encode()

    for key in list(kept._packed):
        kept.discard(key)
    assert not kept._templates
