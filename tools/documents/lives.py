"""The drawn lives of the documents: `python tools/documents/lives.py` writes `docs/pictures/life-of-a-*.svg`.

A state has a place on a grid and says where it lives: in etcd (a key), in Temporal (a workflow), in a process (memory).
An arrow goes from one side of a state to a side of another, and says what happens.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import NamedTuple

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
WIDTH, HEIGHT, GAP, ROW, EDGE, LINE, HEAD = 246, 112, 92, 188, 20, 17, 36
"""Pixels: a box, between two columns, from row to row, around all, a line of text, a title."""
SIDES = {"l": (0.0, 0.5), "r": (1.0, 0.5), "t": (0.5, 0.0), "b": (0.5, 1.0)}
STYLE = """
text{font:13px system-ui,sans-serif;fill:#1f2933} .title{font-weight:600;font-size:15px}
.said{font-size:12px;fill:#52606d}
.key{font:11.5px ui-monospace,monospace;fill:#0b6e5f} .run{font:11.5px ui-monospace,monospace;fill:#6d3fc0}
.box{fill:#fff;stroke:#9aa5b1;stroke-width:1.2} .end{stroke:#0b6e5f;stroke-width:2.4}
.way{fill:none;stroke:#7b8794;stroke-width:1.4}
.page{fill:#fbfcfd} marker path{fill:#7b8794}
@media (prefers-color-scheme:dark){text{fill:#e4e7eb}.said{fill:#b5bfca}.key{fill:#5fd3bc}.run{fill:#c4a5ff}
.box{fill:#1c232b;stroke:#52606d}.end{stroke:#5fd3bc}.page{fill:#12171d}.way{stroke:#8795a3}marker path{fill:#8795a3}}
"""


class State(NamedTuple):
    """A box. `lines`: plain text; a key of etcd begins with `/`, a workflow or an activity with `@`."""

    column: float
    row: float
    title: str
    lines: tuple[str, ...]
    end: bool = False
    """Whether it is what its user wants."""

    @property
    def corner(self) -> tuple[float, float]:
        """Its left and upper one."""
        return EDGE + self.column * (WIDTH + GAP), EDGE + self.row * ROW

    def side(self, name: str) -> tuple[float, float]:
        """A point of its border: `l`, `r`, `t` or `b`, and how far from the middle, as in `b-40`."""
        (left, top), (x, y), away = self.corner, SIDES[name[0]], float(name[1:] or 0)
        along = (0.0, away) if name[0] in "lr" else (away, 0.0)
        return left + x * WIDTH + along[0], top + y * HEIGHT + along[1]


class Way(NamedTuple):
    """An arrow: `<state>.<side>` to `<state>.<side>`."""

    begin: str
    end: str
    said: tuple[str, ...] = ()
    shift: tuple[float, float] = (0, -6)
    """Of what is said, from the middle of the arrow."""
    anchor: str = "middle"


class Life(NamedTuple):
    """A drawing."""

    title: str
    states: dict[str, State]
    ways: tuple[Way, ...]


POD = Life(
    "The life of a pod",
    {
        "seen": State(0, 0, "Seen", ("in etcd, without a node", "/registry/pods/<ns>/<name>", "no workflow")),
        "gated": State(0, 1, "Gated", ("in its owner's queue", "a gate, class or gang is missing", "no workflow")),
        "queued": State(
            1, 0, "Queued", ("in its owner's queue, by priority", "a restart builds it anew", "no workflow")
        ),
        "flight": State(
            2,
            0,
            "In flight",
            ("in Temporal", "@ScheduleAttempt, alone", "@ScheduleCohort, with others", "@place, then @bind"),
        ),
        "waiting": State(
            1.5,
            1,
            "Waiting",
            ("etcd has the reason", "/…/attempts/<ns>/<name>", "no workflow, or a parked", "@ScheduleAttempt"),
        ),
        "nominated": State(
            2.5,
            1,
            "Nominated",
            ("less important pods leave", "status.nominatedNodeName", "@evict marks and deletes them"),
        ),
        "bound": State(
            3,
            0,
            "Bound",
            ("in etcd, with a node", "/registry/pods/<ns>/<name>", "/…/bindings/<node>", "why: the run's history"),
            True,
        ),
    },
    (
        Way("seen.r", "queued.l", ("nothing", "holds it")),
        Way("seen.b", "gated.t", ("a gate is closed",), (8, 4), "start"),
        Way("gated.r", "queued.b-70", ("the last gate", "opens"), (2, 26), "start"),
        Way("queued.r", "flight.l", ("its group", "starts")),
        Way("flight.r", "bound.l", ("one", "transaction")),
        Way("flight.b-70", "waiting.t40", ("refused",), (-14, -2), "end"),
        Way("waiting.t-60", "queued.b30", ("woken",), (-14, 6), "end"),
        Way("flight.b60", "nominated.t-60", ("refused, others", "can make room"), (14, 0), "start"),
        Way("nominated.l", "waiting.r", ("waits until", "they have left")),
    ),
)

ROLLOUT = Life(
    "The life of a rollout",
    {
        "desired": State(
            0, 0, "Desired", ("the template has changed", "/…/schedulerfleets/<tenant>", "@Fleet sees it")
        ),
        "planned": State(
            1, 0, "Planned", ("the next slot is chosen", "/…/slots/<tenant>/<slot>", "@RollingUpdate, @plan")
        ),
        "granted": State(
            2, 0, "Granted", ("an incarnation may live", "/…/grants/<tenant>/<slot>/<n>", "@grant_instance")
        ),
        "ready": State(
            3,
            0,
            "Ready",
            ("registered under a lease", "/…/instances/<tenant>/<slot>/<n>", "@create_instance, @await_ready"),
        ),
        "observed": State(
            2.5,
            1,
            "Observed",
            ("for soakSeconds; the one before", "is drained, and leaves", "@drain_instance, @kill_instance"),
        ),
        "paused": State(
            1.35, 1, "Paused", ("everything stays as it is", "resume, abort or undo", "@RollingUpdate waits")
        ),
        "ended": State(
            0, 1, "Completed", ("or reverted, aborted, superseded", "/…/outcomes/<tenant>/<n>", "@Fleet goes on"), True
        ),
    },
    (
        Way("desired.r", "planned.l", ("a rollout", "starts")),
        Way("planned.r", "granted.l", ("within the", "budget")),
        Way("granted.r", "ready.l", ("its agent", "starts it")),
        Way("ready.b", "observed.t80", ("minReadySeconds",), (10, 4), "start"),
        Way("observed.t-60", "planned.b80", ("the next slot",), (60, -10), "start"),
        Way("planned.b", "paused.t-36", ("failed slots,", "or a user"), (10, 2), "start"),
        Way("planned.b-80", "ended.t60", ("no slot", "is left"), (-12, -2), "end"),
    ),
)

PLACEMENT = Life(
    "The life of a placement",
    {
        "seen": State(0, 0, "Seen", ("in the hub's etcd", "/registry/placement.…/<name>", "no workflow")),
        "decided": State(1, 0, "Decided", ("which members, and why not", "/…/hub/decisions/<P>", "@SchedulePlacement")),
        "selected": State(
            2, 0, "Selected", ("the objects, at one revision", "/…/hub/snapshots/<P>/<n>", "@take_snapshot")
        ),
        "rolled": State(
            3, 0, "Rolled out", ("what a member shall have", "/…/hub/works/<P>/<member>", "@RollOutPlacement")
        ),
        "applied": State(
            3, 1, "Applied", ("in the member's etcd or API", "/…/placed/applied/<P>", "by the member's agent")
        ),
        "settled": State(2, 1, "Settled", ("all is available; no run is open", "/…/hub/results/<P>/<member>"), True),
        "removed": State(0, 1, "Removed", ("emptied within the budget", "then its keys go", "@RollOutPlacement")),
    },
    (
        Way("seen.r", "decided.l", ("a hub", "takes it")),
        Way("decided.r", "selected.l", ("one", "transaction")),
        Way("selected.r", "rolled.l", ("wave by", "wave")),
        Way("rolled.b", "applied.t", ("its agent", "follows"), (10, 8), "start"),
        Way("applied.l", "settled.r", ("its agent", "answers")),
        Way("settled.t60", "rolled.b-80", ("drift,", "a loss"), (-14, 2), "end"),
        Way("settled.t-40", "selected.b-40", ("objects change",), (-8, 4), "end"),
        Way("settled.l", "decided.b30", ("members", "come or go"), (-14, 14), "end"),
        Way("seen.b", "removed.t", ("deleted",), (8, 4), "start"),
    ),
)
LIVES = {"pod": POD, "rollout": ROLLOUT, "placement": PLACEMENT}


def drawn(life: Life) -> str:
    """The drawing as SVG, which follows the reader's light or dark colours."""
    width = max(state.corner[0] for state in life.states.values()) + WIDTH + EDGE
    height = max(state.corner[1] for state in life.states.values()) + HEIGHT + EDGE
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img">',
            f"<title>{escape(life.title)}</title>",
            f"<style>{STYLE}</style>",
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
            '<path d="M0 0L8 4L0 8z"/></marker></defs>',
            f'<rect class="page" width="{width:g}" height="{height:g}" rx="8"/>',
            *(_way(life, way) for way in life.ways),
            *(line for state in life.states.values() for line in _box(state)),
            "</svg>\n",
        ]
    )


def _box(state: State) -> Iterator[str]:
    (x, y), end = state.corner, " end" if state.end else ""
    yield f'<rect class="box{end}" x="{x:g}" y="{y:g}" width="{WIDTH}" height="{HEIGHT}" rx="7"/>'
    yield f'<text class="title" x="{x + 12:g}" y="{y + 24:g}">{escape(state.title)}</text>'
    for number, line in enumerate(state.lines):
        kind = "key" if "/" in line else "run" if "@" in line else "said"
        text = escape(line.replace("@", ""))
        yield f'<text class="{kind}" x="{x + 12:g}" y="{y + HEAD + 10 + number * LINE:g}">{text}</text>'


def _way(life: Life, way: Way) -> str:
    (x, y), (to_x, to_y) = (life.states[name].side(side) for name, side in (way.begin.split("."), way.end.split(".")))
    middle_x, middle_y = (x + to_x) / 2 + way.shift[0], (y + to_y) / 2 + way.shift[1]
    said = "".join(
        f'<text class="said" x="{middle_x:g}" y="{middle_y - 14 * (len(way.said) - 1 - number):g}" '
        f'text-anchor="{way.anchor}">{escape(line)}</text>'
        for number, line in enumerate(way.said)
    )
    return f'<path class="way" marker-end="url(#tip)" d="M{x:g} {y:g}L{to_x:g} {to_y:g}"/>{said}'


if __name__ == "__main__":
    for name, life in LIVES.items():
        (PICTURES / f"life-of-a-{name}.svg").write_text(drawn(life))
