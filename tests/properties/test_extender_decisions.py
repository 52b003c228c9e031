"""Decisions with extenders against the rules in plain words, over random answers."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from wharfinger.framework.evaluation import Evaluation
from wharfinger.framework.extenders.consulting import consult
from wharfinger.framework.extenders.extender_chain import FilterAnswer, FilterChain
from wharfinger.framework.extenders.extender_verdicts import ExtenderQuestion, ExtenderVerdicts, pack, unpack
from wharfinger.framework.profiles import load_profiles
from wharfinger.testing.builders import node, pod, snapshot

URLS = ("http://a", "http://b", "http://c")
WEIGHTS = dict(zip(URLS, (1, 2, 5), strict=True))
BY = load_profiles(
    {
        "extenders": [
            {"urlPrefix": url, "filterVerb": "f", "prioritizeVerb": "p", "weight": weight}
            for url, weight in WEIGHTS.items()
        ]
    }
)["default-scheduler"]
NAMES = tuple(f"n{number}" for number in range(6))
WEB = pod("web", cpu=100)
ALIKE = load_profiles({})["default-scheduler"].evaluate(WEB, snapshot(*map(node, NAMES))).ranking(1)[0].total
"""What the plugins give each node: no score depends on which others are feasible, because all are alike."""

verdict = st.sampled_from([None, None, None, None, ("no licence", True), ("wrong rack", False), ("full", True)])
answers = st.fixed_dictionaries({url: st.fixed_dictionaries(dict.fromkeys(NAMES, verdict)) for url in URLS})
points = st.fixed_dictionaries({url: st.dictionaries(st.sampled_from(NAMES), st.integers(-10, 10)) for url in URLS})
too_small = st.sets(st.sampled_from(NAMES))


@given(answers, points, too_small)
def test_the_decision_is_that_of_the_rules(
    said: dict[str, dict[str, tuple[str, bool] | None]], scores: dict[str, dict[str, int]], small: set[str]
) -> None:
    nodes = snapshot(*(node(name, cpu=10 if name in small else 4000) for name in NAMES))
    reasons: Counter[str] = Counter({"Insufficient cpu": len(small)} if small else {})
    left = [name for name in NAMES if name not in small]
    fit = left
    for url in URLS:
        refused = {name: why for name in left if (why := said[url][name]) is not None}
        reasons.update(reason for reason, _ in refused.values())
        left = [name for name in left if name not in refused]
    totals = {name: ALIKE + sum(scores[url].get(name, 0) * WEIGHTS[url] * 10 for url in URLS) for name in left}

    asked = consult(BY, WEB, nodes)
    if not fit:
        assert isinstance(asked, Evaluation)
        return
    assert isinstance(asked, ExtenderQuestion)
    assert list(asked.nodes) == fit
    final = consult(BY, WEB, nodes, verdicts=answered(asked, said, scores))

    assert isinstance(final, Evaluation)
    assert list(final.feasible) == left
    counted: Counter[str] = Counter()
    for counts in final.refusals.values():
        counted.update(counts)
    assert counted == reasons
    if left:
        assert final.node in left
    else:
        text = ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))
        assert final.message.startswith(f"0/{len(NAMES)} nodes are available: {text}.")
    if len(left) > 1:
        assert {one.node: one.total for one in final.ranking(len(NAMES))} == totals
        assert final.node is not None
        assert totals[final.node] == max(totals.values())


def answered(
    asked: ExtenderQuestion,
    said: dict[str, dict[str, tuple[str, bool] | None]],
    scores: dict[str, dict[str, int]],
) -> ExtenderVerdicts:
    """As an activity would bring it back, packed and unpacked."""
    chain = FilterChain(asked, BY.extenders)
    for extender in chain.filters():
        if not chain.left:
            break
        verdicts = {name: said[extender.name][name] for name in chain.left}
        failed = {name: why[0] for name, why in verdicts.items() if why is not None and why[1]}
        final = {name: why[0] for name, why in verdicts.items() if why is not None and not why[1]}
        passed = tuple(name for name, why in verdicts.items() if why is None)
        assert chain.filtered(extender, FilterAnswer(passed, failed, final)) is None
    for extender in chain.prioritizers():
        chain.prioritized(extender, scores[extender.name].items())
    text = pack(chain.verdicts())
    assert isinstance(text, str)
    read = unpack(text)
    assert isinstance(read, ExtenderVerdicts)
    return read
