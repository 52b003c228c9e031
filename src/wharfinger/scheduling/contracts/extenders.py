"""What travels of a decision that extenders have a word in: the question, and what they answered.

`place` answers `AskExtenders` where it cannot decide alone; `ask_extenders` puts the question; a further `place` is
given all answers so far. The texts are those of `framework.extenders.extender_verdicts`, at most 256 KiB each.
"""

from __future__ import annotations

from typing import Literal

from wharfinger.process.contract import Contract


class AskExtenders(Contract):
    """There is no decision yet: extenders are to be asked first."""

    kind: Literal["ask"] = "ask"
    uid: str
    create_revision: int
    pod_revision: int
    """Mod revision of the pod that is decided for."""
    about: Literal["nodes", "victims"]
    """Whether nodes are filtered and scored, or candidates for preemption are edited."""
    question: str
    """Packed."""
    count: int
    """How many nodes, or candidates, it is about; for people."""
    extenders: tuple[str, ...]
    """Names of those that are asked, in the order of the calls."""
    seconds: float = 0.0
    """How long the calls may take in all, by the time-outs of these extenders."""


class ExtenderAnswers(Contract):
    """All that extenders have answered about one pod in one attempt."""

    nodes: str = ""
    """Packed verdicts on nodes; empty = not asked."""
    victims: str = ""
    """Packed verdicts on candidates for preemption; empty = not asked."""
    rounds: int = 0
    """How many questions about nodes were answered: they are put again where the cluster moved."""

    def with_one(self, ask: AskExtenders, answered: ExtendersAnswered) -> ExtenderAnswers:
        """These answers and one more."""
        if ask.about == "victims":
            return self.model_copy(update={"victims": answered.answer})
        # Victims were found on nodes that extenders had left before: they are asked about anew.
        return ExtenderAnswers(nodes=answered.answer, rounds=self.rounds + 1)


NO_ANSWERS = ExtenderAnswers()


class ExtendersAnswered(Contract):
    """What became of one question."""

    kind: Literal["answered"] = "answered"
    answer: str
    """Packed."""


class ExtendersFailed(Contract):
    """An extender failed that may not be ignored, or its answer is too large to be kept: the attempt fails."""

    kind: Literal["failed"] = "failed"
    extender: str
    """Empty where it is no single one's failure."""
    verb: str
    message: str
