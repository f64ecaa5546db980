"""Our classic groups against Kafka 4.2's own, with random members.

Both get the same requests at the same times. Answers, groups and records must be equal, but for
three things: Kafka leaves some requests without an answer (`classic.joining`); it creates a group
for a first join that it refuses; and it waits for the sync of a static member's old id, which
nobody can send any more (`classic.static_members`). The members here do none of the latter two.
"""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from nodes.coordinators.groups.classic.group import ClassicGroup, GroupState
from nodes.coordinators.groups.classic.requests import Identity, Leaver
from nodes.coordinators.groups.settings import ClassicSettings
from nodes.coordinators.machine import Answer
from tests.support.foreign import java, kafka_coordinator
from tests.support.foreign.kafka_coordinator import KafkaCoordinator
from tests.support.foreign.side_by_side import NOBODY, STRANGER, SideBySide
from tests.support.require import require
from tests.support.tiers import in_turn

pytestmark = pytest.mark.slow

GROUPS = ("g", "h")
SEEDS = 8
STEPS = 300


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled program."""
    require("kafka", "javac")
    folder = tmp_path_factory.mktemp("classes")
    java.compiled(kafka_coordinator.PROGRAM, folder)
    return folder


class RandomMembers:
    """Members that follow the protocol most of the time."""

    def __init__(self, kafka: KafkaCoordinator, settings: ClassicSettings, seed: int) -> None:
        self.random = Random(seed)
        self.sides = SideBySide(kafka, settings, seed)
        self.known: list[tuple[Identity, int]] = []
        self.due: list[Callable[[], Any]] = []
        self.joins = 0

    def step(self) -> None:
        """Do one thing."""
        choice = self.random.random()
        who, generation = self._somebody()
        group_id = self.random.choice(GROUPS)
        exists = self._group(group_id) is not None
        if choice < 0.50 and self.due:
            self.due.pop(self.random.randrange(len(self.due)))()
        elif choice < 0.57:
            self._join(Identity(group_id, NOBODY, self.random.choice([None, None, "i", "j"])))
        elif choice < 0.61:
            self._join(who)
        elif choice < 0.65:
            self._learn(self.sides.sync(who, generation, [STRANGER]))
        elif choice < 0.76:
            self._heartbeat(who, generation)
        elif choice < 0.80 and exists:
            self._leave(group_id)
        elif choice < 0.86 and self._group(who.group_id) is not None:
            self._commit(who, generation)
        elif choice < 0.87 and exists:
            self.sides.delete(group_id)
        elif choice < 0.99:
            ms = self.random.choice([1, 203, 1_009, 2_003, 7_001]) + self.random.randrange(50)
            self._learn(self.sides.advance(ms))
        else:
            self.sides.fail_over()

    def _group(self, group_id: str) -> ClassicGroup | None:
        groups: dict[str, ClassicGroup] = self.sides.driver.machine.groups
        return groups.get(group_id)

    def _somebody(self) -> tuple[Identity, int]:
        if not self.known or self.random.random() < 0.04:
            return Identity(self.random.choice(GROUPS), STRANGER), 1
        who, generation = self.random.choice(self.known[-8:])
        return who, generation + self.random.choice([0] * 9 + [1, -1])

    def _join(self, who: Identity) -> None:
        group = self._group(who.group_id)
        if group is not None and self._is_away_before_its_sync(group, who):
            return
        alone = group is None or not group.members
        protocols = ["p", "q"] if self.random.random() < 0.8 else ["p"]
        if not alone and self.random.random() < 0.07:
            protocols = ["z"]
        self.joins += 1
        learned = self.sides.join(
            who,
            protocols=protocols,
            metadata=self.random.choice([b"m", b"m", b"m", b"n"]),
            type="connect" if not alone and self.random.random() < 0.03 else "consumer",
            # No two sessions end at one time: it would be chance which ends first.
            session=self.random.choice([1_009, 20_011, 30_013]) + self.joins,
            rebalance=self.random.choice([1_511, 5_003, 20_021]) + self.random.randrange(97),
            version=self.random.choice([3, 4, 8, 9, 9]),
        )
        self._learn(learned)

    @staticmethod
    def _is_away_before_its_sync(group: ClassicGroup, who: Identity) -> bool:
        old_id = group.static_members.get(who.instance_id or NOBODY)
        stable = group.state is GroupState.STABLE
        return stable and who.member_id == NOBODY and old_id in group.pending_syncs

    def _heartbeat(self, who: Identity, generation: int) -> None:
        ((_, answer),) = self.sides.heartbeat(who, generation)
        if answer["error_code"] is ErrorCode.rebalance_in_progress:
            self.due.append(lambda: self._join(who))

    def _leave(self, group_id: str) -> None:
        leavers = []
        for _ in range(self.random.choice([1, 1, 2])):
            who, _ = self._somebody()
            by_instance = who.instance_id is not None and self.random.random() < 0.5
            leavers.append(Leaver(NOBODY if by_instance else who.member_id, who.instance_id))
        self.sides.leave(group_id, leavers)

    def _commit(self, who: Identity, generation: int) -> None:
        if self.random.random() < 0.2:
            who, generation = Identity(who.group_id), -1
        self.sides.commit(who, generation, transactional=self.random.random() < 0.3)

    def _learn(self, answers: list[tuple[dict[str, Any], Answer]]) -> None:
        names = self.sides.names
        for request, answer in answers:
            if "generation_id" not in answer:
                continue
            who = request["who"]._replace(member_id=names.of_ours(answer["member_id"]))
            if answer["error_code"] is ErrorCode.member_id_required:
                self.due.append(lambda who=who: self._join(who))
            elif answer["error_code"] is ErrorCode.none:
                generation = answer["generation_id"]
                self.known.append((who, generation))
                members = [names.of_ours(each["member_id"]) for each in answer["members"]]
                parts = [each for each in members if each in names.ours]
                self.due.append(
                    lambda who=who, generation=generation, parts=parts: self._learn(
                        self.sides.sync(who, generation, parts)
                    )
                )


@pytest.mark.parametrize(
    ("delay_ms", "most"),
    in_turn(
        "system/test_classic_groups_against_kafka.py::test_groups_are_as_kafka_s",
        [(0, 100), (3_000, 100), (3_000, 3), (0, 2)],
        of=2,
    ),
)
def test_groups_are_as_kafka_s(classes: Path, delay_ms: int, most: int) -> None:
    """Random members on both, many times from the beginning."""
    settings = ClassicSettings(
        min_session_timeout_ms=1, initial_rebalance_delay_ms=delay_ms, max_size=most
    )
    counts: Counter[str] = Counter()
    properties = {"group_initial_rebalance_delay_ms": delay_ms, "group_max_size": most}
    with kafka_coordinator.running(classes, **properties) as kafka:
        for seed in range(SEEDS):
            members = RandomMembers(kafka, settings, seed)
            try:
                for _ in range(STEPS):
                    members.step()
            except AssertionError as error:
                error.add_note(f"seed {seed}, the last requests: {members.sides.trace[-8:]}")
                raise
            counts += members.sides.counts
    assert counts["Stable"] > 100
    assert counts["records"] > 50
