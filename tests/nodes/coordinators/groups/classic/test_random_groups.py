"""Random members of random groups: what must hold after each step, whatever they do.

- What is remembered is what the log says, whole or compacted; a stable or an empty group is as its
  record says.
- One generation is accepted at a time, and none that is older than one that was accepted.
- A member gets what the leader of its generation assigned to it, and nothing else.
- Every request is answered within the rebalance time-out; at the end everybody is gone.
- Nothing raises, whatever the requests and the records say.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from nodes.coordinators.groups.classic.group import GroupState
from nodes.coordinators.groups.classic.groups import ClassicGroups
from nodes.coordinators.groups.classic.records import (
    GroupMetadataValue,
    MemberMetadata,
    group_record,
)
from nodes.coordinators.groups.classic.requests import (
    Client,
    Identity,
    Join,
    Leaver,
    MemberProtocol,
    Sync,
)
from nodes.coordinators.groups.kind import Committer
from nodes.coordinators.groups.settings import ClassicSettings
from nodes.coordinators.machine import Answer, Token
from nodes.coordinators.records import CoordinatorRecord, RecordError
from tests.support.nodes.machine_driver import Appended, MachineDriver

GROUPS = ("g", "h")
PROTOCOLS = ("p", "q", "r")
LONGEST_MS = 20_000
"""The longest time-out that a member asks for."""
SLICE_MS = 500


class RandomRun:
    """Members that follow the protocol most of the time, on a coordinator that may fail over."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        settings = ClassicSettings(
            min_session_timeout_ms=1,
            initial_rebalance_delay_ms=self.random.choice([0, 3_000]),
            max_size=self.random.choice([2, 100]),
        )
        ids = Random(seed)
        self.driver: MachineDriver[Any] = MachineDriver(lambda: ClassicGroups(settings, ids))
        self.sent: dict[Token, tuple[float, str, Any]] = {}
        self.known: list[tuple[Identity, int]] = []
        self.due: list[Callable[[], None]] = []
        """What members that follow the protocol do next."""
        self.accepted: dict[str, int] = {}
        self.handed_out = 0

    def step(self) -> None:
        """Do one thing, and check everything."""
        choice = self.random.random()
        if choice < 0.5 and self.due:
            self.due.pop(self.random.randrange(len(self.due)))()
        elif choice < 0.56:
            self._join(self._newcomer())
        elif choice < 0.60:
            self._join(self._somebody()[0])
        elif choice < 0.64:
            self._sync(*self._somebody(), ("forged",))
        elif choice < 0.76:
            self._heartbeat()
        elif choice < 0.80:
            self._leave()
        elif choice < 0.86:
            self._commit()
        elif choice < 0.99:
            self._pass_time()
        else:
            self.driver.fail_over()
            self.sent.clear()
            self.accepted.clear()
        self._learn()
        self._check_groups()

    def finish(self) -> None:
        """Everybody falls silent: their requests are answered, and the groups become empty."""
        self.driver.advance(400_000)
        self._learn()
        assert self.sent == {}
        assert self.driver.machine.deadline_ms() is None
        for group in self.driver.machine.groups.values():
            assert (group.state, group.pending_joins) == (GroupState.EMPTY, set())
        self.check_log()

    def check_log(self) -> None:
        """What is remembered is what the log says."""
        for compacted in (False, True):
            rebuilt = self.driver.rebuilt(compacted=compacted)
            assert rebuilt.remembered == self.driver.machine.remembered

    def _newcomer(self) -> Identity:
        return Identity(self.random.choice(GROUPS), "", self.random.choice([None, None, "i", "j"]))

    def _join(self, who: Identity) -> None:
        names = self.random.sample(PROTOCOLS, self.random.choice([1, 2, 3, 3, 3, 3, 3]))
        request = Join(
            who=who,
            client=Client("c", "/h"),
            protocol_type=self.random.choice(["consumer"] * 9 + ["connect"]),
            protocols=tuple(MemberProtocol(each, b"m") for each in names),
            session_timeout_ms=self.random.choice([1_000, LONGEST_MS, LONGEST_MS]),
            rebalance_timeout_ms=self.random.choice([1_000, 5_000, LONGEST_MS]),
            version=self.random.choice([3, 4, 8, 9, 9]),
        )
        token = self.driver.perform(lambda m, token, now: m.join(request, token, now))
        self.sent[token] = (self.driver.now.ms, "join", request)

    def _sync(self, who: Identity, generation: int, members: tuple[str, ...] = ()) -> None:
        parts = tuple((each, f"{generation}:{each}".encode()) for each in members)
        request = Sync(who, generation, None, None, parts)
        token = self.driver.perform(lambda m, token, now: m.sync(request, token, now))
        self.sent[token] = (self.driver.now.ms, "sync", request)

    def _heartbeat(self) -> None:
        who, generation = self._somebody()
        answer = self.driver.ask(lambda m, token, now: m.heartbeat(who, generation, token, now))
        if answer["error_code"] in (ErrorCode.none, ErrorCode.rebalance_in_progress):
            self._accept(who.group_id, generation)
        if answer["error_code"] is ErrorCode.rebalance_in_progress:
            self.due.append(lambda: self._join(who))

    def _leave(self) -> None:
        leavers = [Leaver(*self._somebody()[0][1:]) for _ in range(self.random.choice([1, 1, 2]))]
        group_id = self.random.choice(GROUPS)
        self.driver.ask(lambda m, token, now: m.leave(group_id, leavers, token, now))

    def _commit(self) -> None:
        who, generation = self._somebody()
        if self.driver.machine.has(who.group_id) and generation >= 0:
            committer = Committer(*who, generation=generation)
            error = self.driver.machine.check_commit(committer, self.driver.now)
            if error is ErrorCode.none:
                self._accept(who.group_id, generation)

    def _pass_time(self) -> None:
        for _ in range(self.random.choice([1, 1, 2, 10])):
            self.driver.advance(SLICE_MS)
            self._learn()
            oldest = min((at for at, *_ in self.sent.values()), default=self.driver.now.ms)
            assert self.driver.now.ms - oldest <= LONGEST_MS + SLICE_MS, "a request waits too long"

    def _somebody(self) -> tuple[Identity, int]:
        """A member that is known, or was; sometimes with a wrong generation."""
        if not self.known or self.random.random() < 0.05:
            return Identity(self.random.choice(GROUPS), "stranger"), 1
        who, generation = self.random.choice(self.known[-12:])
        return who, generation + self.random.choice([0] * 8 + [-1, 1])

    def _learn(self) -> None:
        for token in [each for each in self.sent if each in self.driver.answers]:
            _, kind, request = self.sent.pop(token)
            answer = self.driver.answers[token]
            if kind == "join":
                self._learn_join(request, answer)
            elif answer["error_code"] is ErrorCode.none:
                self._learn_sync(request, answer)

    def _learn_join(self, request: Join, answer: Answer) -> None:
        if answer["error_code"] is ErrorCode.member_id_required:
            given = request.who._replace(member_id=answer["member_id"])
            self.due.append(lambda: self._join(given))
        if answer["error_code"] is not ErrorCode.none:
            return
        who = request.who._replace(member_id=answer["member_id"])
        generation = answer["generation_id"]
        self.known.append((who, generation))
        members = tuple(each["member_id"] for each in answer["members"])
        self.due.append(lambda: self._sync(who, generation, members))

    def _learn_sync(self, request: Sync, answer: Answer) -> None:
        self._accept(request.who.group_id, request.generation)
        self.handed_out += 1
        record = self._record(request.who.group_id, request.generation)
        member = next(m for m in record.members if m.member_id == request.who.member_id)
        assert answer["assignment"] == member.assignment

    def _record(self, group_id: str, generation: int) -> GroupMetadataValue:
        """The last record of a generation that names its members."""
        found = [
            value
            for each, value in self._values()
            if each == group_id and value.generation == generation and value.members
        ]
        parts = [sorted(m.assignment for m in value.members) for value in found]
        assert all(each == parts[0] for each in parts), "a generation has two assignments"
        return found[-1]

    def _values(self) -> Iterator[tuple[str, GroupMetadataValue]]:
        for entry in self.driver.log:
            assert isinstance(entry, Appended)
            machine = ClassicGroups(ClassicSettings(), Random(0))
            machine.replay(entry.record, entry.position)
            yield from machine.remembered.items()

    def _accept(self, group_id: str, generation: int) -> None:
        assert generation >= self.accepted.get(group_id, 0), "an older generation is accepted"
        self.accepted[group_id] = generation

    def _check_groups(self) -> None:
        machine = self.driver.machine
        assert machine.remembered.keys() == machine.groups.keys()
        for group_id, group in machine.groups.items():
            remembered = machine.remembered[group_id]
            if group.state is GroupState.EMPTY:
                assert group.value() == remembered
            if group.state is GroupState.STABLE:  # its record may have an earlier time
                since = remembered.current_state_timestamp
                assert replace(group.value(), current_state_timestamp=since) == remembered
            assert group.joined.keys() <= group.members.keys()
            assert group.syncing.keys() <= group.members.keys()
            assert not group.joined or group.state is GroupState.PREPARING_REBALANCE
            assert not group.syncing or group.state is GroupState.COMPLETING_REBALANCE
            assert (group.leader in group.members) == bool(group.members)
            assert set(group.static_members.values()) == {
                each.member_id for each in group.members.values() if each.instance_id is not None
            }


@pytest.mark.parametrize("seed", range(24))
def test_random_members(seed: int) -> None:
    """What must hold, holds after every step."""
    run = RandomRun(seed)
    for n in range(800):
        run.step()
        if n % 100 == 0:
            run.check_log()
    run.finish()
    assert run.handed_out > 5


WILD_TEXTS = ("", "g", "i", "\0", "é" * 20, "x" * 32_767, "y" * 40_000)
WILD_NUMBERS = (0, 1, -1, 6_000, 45_000, 2**31 - 1, -(2**31))


class WildRequests:
    """Requests as no client makes them; ids that the coordinator gave out are among them."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.ids: list[str] = ["m"]

    def text(self) -> str:
        """A text of any kind."""
        return self.random.choice(self.random.choice([WILD_TEXTS, tuple(self.ids[-5:])]))

    def number(self) -> int:
        """An int32."""
        return self.random.choice(WILD_NUMBERS)

    def identity(self) -> Identity:
        """Somebody."""
        return Identity(
            self.random.choice(["g", "g", "g", self.text()]),
            self.text(),
            self.random.choice([None, None, self.text()]),
        )

    def protocols(self) -> tuple[MemberProtocol, ...]:
        """Some protocols, also none, or one twice."""
        names = self.random.choices(["p", "p", "q", self.text()], k=self.random.randrange(4))
        return tuple(MemberProtocol(each, self.random.randbytes(3)) for each in names)

    def join(self) -> Join:
        """A JoinGroup."""
        return Join(
            self.identity(),
            Client(self.text(), "/h"),
            self.random.choice(["consumer", "consumer", self.text()]),
            self.protocols(),
            self.random.choice([6_000, 6_000, self.number()]),
            self.number(),
            self.random.randrange(10),
        )

    def sync(self) -> Sync:
        """A SyncGroup."""
        return Sync(
            self.identity(),
            self.random.choice([1, 2, 3, self.number()]),
            self.random.choice([None, "consumer", self.text()]),
            self.random.choice([None, self.text()]),
            ((self.text(), b"part"), (self.text(), b"")),
        )

    def value(self) -> GroupMetadataValue:
        """A record that can be read, and may contradict itself."""
        members = tuple(
            MemberMetadata(
                member_id=self.random.choice(["m", "n", "o"]),
                group_instance_id=self.random.choice([None, "i", "j"]),
                client_id="",
                client_host="",
                rebalance_timeout=self.number(),
                session_timeout=self.number(),
                subscription=b"",
                assignment=b"",
            )
            for _ in range(self.random.randrange(4))
        )
        return GroupMetadataValue(
            protocol_type=self.random.choice(["", "consumer"]),
            generation=self.number(),
            protocol=self.random.choice([None, "", "p"]),
            leader=self.random.choice([None, "", "m", "z"]),
            current_state_timestamp=self.number(),
            members=members,
        )


@pytest.mark.parametrize("seed", range(12))
def test_no_request_makes_it_raise(seed: int) -> None:
    """Also after records that contradict themselves, and after long times."""
    wild = WildRequests(seed)
    settings = ClassicSettings(max_size=wild.random.choice([1, 100]))
    driver: MachineDriver[Any] = MachineDriver(lambda: ClassicGroups(settings, Random(seed)))
    for n in range(400):
        request, sync, who = wild.join(), wild.sync(), wild.identity()
        driver.perform(lambda m, t, now, request=request: m.join(request, t, now))
        driver.perform(lambda m, t, now, sync=sync: m.sync(sync, t, now))
        number, leavers = wild.number(), [Leaver(*wild.identity()[1:])]
        driver.ask(lambda m, t, now, who=who, n=number: m.heartbeat(who, n, t, now))
        if wild.random.random() < 0.3:
            driver.ask(lambda m, t, now, who=who, v=leavers: m.leave(who.group_id, v, t, now))
        for group_id in list(driver.machine.groups):
            driver.machine.describe(group_id)
            committer = Committer(group_id, who.member_id, who.instance_id, number)
            driver.machine.check_commit(committer, driver.now)
        list(driver.machine.listing())
        wild.ids += [a["member_id"] for a in driver.answers.values() if "leader" in a][-3:]
        if n % 40 == 0:
            record = group_record("g", wild.value())
            driver.log.append(Appended(record, driver._position(None)))
            driver.fail_over()
        driver.advance(wild.random.choice([0, 10, 6_000, 400_000]))
    rebuilt = driver.rebuilt()
    assert rebuilt.remembered == driver.machine.remembered


def test_damaged_records_are_named() -> None:
    """RecordError, and nothing else."""
    random = Random(5)
    good = group_record("g", WildRequests(1).value())
    assert good.value is not None
    position = MachineDriver(lambda: ClassicGroups(ClassicSettings(), random))._position(None)
    refused = 0
    for _ in range(3_000):
        data = bytearray(good.value)
        for _ in range(random.randrange(1, 4)):
            data[random.randrange(len(data))] = random.randrange(256)
        size = random.choice([len(data), random.randrange(len(data))])
        groups = ClassicGroups(ClassicSettings(), random)
        try:
            groups.replay(CoordinatorRecord(good.key, bytes(data[:size])), position)
        except RecordError:
            refused += 1
    assert refused > 0
