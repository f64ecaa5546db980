"""Whatever a history of Jepsen's shows, nothing is forgiven that Jepsen's own rules do not forgive.

Histories come from a sound log, now and then bent as a broken one would bend it. Jepsen's rules are
those of `as_jepsen`.
"""

import random
import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field

from tests.support.checkers.jepsen_histories import Told
from tests.support.checkers.jepsen_rules import errors
from tests.support.checkers.judge_imports import found, judged_together

BY_ELLE = {"precommitted-read"}
"""What `highwater elle` says, and `highwater check` does not."""

ANY = ("ok", "info", "fail")
"""Whoever was given a record, it was read; Jepsen asks for a poll that completed ok."""

BEYOND = {"reordered-ack", "lost-write", "unseen"}
"""What is found besides: by the order of time, and of a torn transaction the half of which Jepsen
does not know the offset."""

BENDS = 0.02
"""The share of steps that go wrong."""


@dataclass
class Cluster:
    """A log for each key, processes and what they do."""

    rng: random.Random
    bends: float
    told: Told = field(default_factory=Told)
    logs: dict[int, dict[int, int]] = field(default_factory=lambda: defaultdict(dict))
    positions: dict[tuple[int, int], int] = field(default_factory=dict)
    subscribed: set[int] = field(default_factory=set)
    values: int = 0
    next_process: int = 4

    def bent(self) -> bool:
        """Whether something goes wrong here."""
        return self.rng.random() < self.bends

    def send(self, key: int, kind: str, *, written: bool) -> tuple[str, str]:
        """A send, as it is invoked and as it completes."""
        self.values += 1
        value, log = self.values, self.logs[key]
        offset = max(log, default=-1) + self.rng.choice((1, 1, 1, 2))
        if written != self.bent():
            if self.bent():
                offset = self.rng.choice(sorted(log) or [0])  # overwritten, or in a gap below
            log[offset] = value
        known = kind == "ok" or self.rng.random() < 0.5
        told = offset + self.rng.choice((-1, 1)) if self.bent() and offset else offset
        place = f"[{told} {value}]" if known and kind != "fail" else str(value)
        return f"[:send {key} {value}]", f"[:send {key} {place}]"

    def poll(self, process: int, positions: dict[int, int]) -> str:
        """A poll from some positions, which it moves."""
        records = []
        for key, position in positions.items():
            if self.bent():
                position = max(0, position + self.rng.choice((-1, 1, 2)))
            there = [offset for offset in sorted(self.logs[key]) if offset >= position]
            taken = there[: self.rng.randint(0, 3)]
            if self.bent() and len(taken) > 2:
                del taken[1]
            if taken:
                pairs = " ".join(f"[{offset} {self.logs[key][offset]}]" for offset in taken)
                records.append(f"{key} [{pairs}]")
                positions[key] = taken[-1] + 1
        return f"[:poll {{{', '.join(records)}}}]"

    def step(self, process: int) -> int:
        """An operation of a process; returns the process that goes on."""
        kind = self.rng.choices(("ok", "fail", "info"), (16, 2, 2))[0]
        mine = {key: at for (who, key), at in self.positions.items() if who == process}
        if not mine or self.rng.random() < 0.05:
            self.assign(process, mine)
            return process
        many = self.rng.choice((1, 1, 1, 3))
        kinds = [self.rng.random() < 0.5 for _ in range(many)]
        written = kind == "ok" or (kind == "info" and self.rng.random() < 0.5)
        steps = [
            self.send(self.rng.randint(1, 2), kind, written=written) if sends
            else ("[:poll]", self.poll(process, mine))
            for sends in kinds
        ]  # fmt: skip
        f = "txn" if len(set(kinds)) > 1 else "send" if kinds[0] else "poll"
        invoked, completed = (f"[{' '.join(each)}]" for each in zip(*steps, strict=True))
        self.told.op(process, f, invoked, completed, kind)
        if kind == "ok":
            self.positions |= {(process, key): at for key, at in mine.items()}
        if kind != "info":
            return process
        self.next_process += 1
        return self.next_process

    def assign(self, process: int, mine: dict[int, int]) -> None:
        """Keys that a process keeps are where they were."""
        keys = self.rng.sample((1, 2), self.rng.randint(1, 2))
        f = self.rng.choice(("assign", "assign", "subscribe"))
        self.told.assign(process, f"[{' '.join(map(str, keys))}]", f)
        for key in (1, 2):
            self.positions.pop((process, key), None)
        self.positions |= {(process, key): mine.get(key, 0) for key in keys}

    def read_all(self) -> None:
        """The final polls of a process of its own."""
        self.told.assign(99, "[1 2]")
        self.positions = {(99, 1): 0, (99, 2): 0}
        positions = {1: 0, 2: 0}
        for _ in range(self.rng.choice((8, 60))):
            self.told.op(99, "poll", "[[:poll]]", f"[{self.poll(99, positions)}]")


def history(seed: int, bends: float = BENDS) -> Told:
    """A history of a few dozen operations."""
    rng = random.Random(seed)
    cluster = Cluster(rng, bends=bends)
    processes = [0, 1, 2]
    for _ in range(rng.randint(5, 30)):
        at = rng.randrange(3)
        processes[at] = cluster.step(processes[at])
    cluster.read_all()
    return cluster.told


def test_history_that_jepsen_rejects_is_not_valid() -> None:
    """Where its rules find an error, the verdict is not VALID; where they find none, neither do
    ours, but what only we look for."""
    told = {f"t{seed}": history(seed) for seed in range(600, 750)}
    verdict = judged_together({topic: each.imported(topic=topic) for topic, each in told.items()})
    counted: Counter[str] = Counter()
    for topic, each in told.items():
        theirs = errors(each.ops(), read_by=ANY) - BY_ELLE
        ours = {kind for (kind, _), (how, _) in found(verdict, topic).items() if how != "permitted"}
        counted.update(theirs or {"none"})
        assert bool(theirs) <= bool(ours), (topic, theirs, each.lines)
        assert theirs or ours <= BEYOND, (topic, ours, each.lines)
    assert len(counted) > 10, counted


def test_senders_that_crash_and_fail_leave_nothing_open() -> None:
    """Jepsen replaces a process after each :info; what it tried and nobody tried again, for however
    long, is not stuck."""
    told = {f"t{seed}": history(seed, bends=0) for seed in range(40)}
    for each in told.values():
        each.lines = [re.sub(r":time (\d+)", r":time \g<1>000000", line) for line in each.lines]
    sound = {
        topic: each for topic, each in told.items() if not errors(each.ops(), read_by=ANY) - BY_ELLE
    }
    assert len(sound) > 35
    verdict = judged_together({t: each.imported(topic=t) for t, each in sound.items()})
    assert verdict.outcome.value == "VALID", verdict.reasons
