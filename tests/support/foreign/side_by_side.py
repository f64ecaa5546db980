"""Classic groups on our coordinator and on Kafka's own, asked the same, and compared.

Both give out member ids by chance. Here a member has a name that stands for its id on each side.
Where Kafka's choice follows a hash map (the next leader, when one is gone), ours takes it over.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from random import Random
from typing import Any, Final

from kio.schema.errors import ErrorCode

from nodes.coordinators.groups.classic.groups import ClassicGroups
from nodes.coordinators.groups.classic.records import GROUP_METADATA
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
from nodes.coordinators.machine import Answer, Effects, Now, Token
from nodes.coordinators.records import CoordinatorRecord, RecordTypes
from tests.support.foreign.kafka_coordinator import KafkaCoordinator, Reply
from tests.support.nodes.machine_driver import Appended, MachineDriver

NOBODY: Final = ""
STRANGER: Final = "stranger"
_TYPES: Final = RecordTypes([GROUP_METADATA])

Operation = Callable[[ClassicGroups, Token, Now], Effects]


class Names:
    """The names of members, and their ids on both sides."""

    def __init__(self) -> None:
        self.ours = {NOBODY: NOBODY, STRANGER: STRANGER}
        self.kafkas = dict(self.ours)
        self._of_ours: dict[str, str] = {}
        self._of_kafkas: dict[str, str] = {}

    def learn(self, ours: str, kafkas: str) -> str:
        """The name of a member that has these ids; a new one if neither is known."""
        if ours not in self._of_ours and kafkas not in self._of_kafkas:
            name = f"m{len(self._of_ours)}"
            self.ours[name], self.kafkas[name] = ours, kafkas
            self._of_ours[ours] = self._of_kafkas[kafkas] = name
        assert self.of_ours(ours) == self.of_kafkas(kafkas), "an answer went to another member"
        return self.of_ours(ours)

    def of_ours(self, member_id: str | None) -> str:
        """A member's name; "?" for one whose id no answer has told yet."""
        return self._of_ours.get(member_id or NOBODY, "?") if member_id else NOBODY

    def of_kafkas(self, member_id: str | None) -> str:
        """A member's name, as above."""
        return self._of_kafkas.get(member_id or NOBODY, "?") if member_id else NOBODY


class SideBySide:
    """Both coordinators. Every request is compared, and everything that comes of it."""

    def __init__(self, kafka: KafkaCoordinator, settings: ClassicSettings, seed: int) -> None:
        kafka.ask("new")
        random = Random(seed)
        self.driver: MachineDriver[Any] = MachineDriver(lambda: ClassicGroups(settings, random))
        self.names = Names()
        self.counts: Counter[str] = Counter()
        self.trace: list[tuple[float, str, dict[str, Any]]] = []
        self._kafka = kafka
        self._unanswered: dict[Token, tuple[str, dict[str, Any]]] = {}

    # -- requests: each returns the answers that came of it, by token, with the request

    def join(self, who: Identity, **wishes: Any) -> list[tuple[dict[str, Any], Answer]]:
        """JoinGroup: protocols (names), metadata, type, session, rebalance, version."""
        protocols = tuple(MemberProtocol(name, wishes["metadata"]) for name in wishes["protocols"])
        request = Join(
            self._on_ours(who),
            Client("c", "/127.0.0.1"),
            wishes["type"],
            protocols,
            wishes["session"],
            wishes["rebalance"],
            wishes["version"],
        )
        fields = {
            **wishes,
            "metadata": None,
            "protocols": [[each.name, each.metadata.hex()] for each in protocols],
        }
        return self._do("join", lambda m, t, now: m.join(request, t, now), who, **fields)

    def sync(
        self, who: Identity, generation: int, parts: Iterable[str]
    ) -> list[tuple[dict[str, Any], Answer]]:
        """SyncGroup, with an assignment to these members."""
        assigned = {name: f"{generation} {name}".encode() for name in parts}
        ours = tuple((self.names.ours[name], part) for name, part in assigned.items())
        request = Sync(self._on_ours(who), generation, None, None, ours)
        kafkas = {self.names.kafkas[name]: part.hex() for name, part in assigned.items()}
        return self._do(
            "sync",
            lambda m, t, now: m.sync(request, t, now),
            who,
            generation=generation,
            assignments=kafkas,
        )

    def heartbeat(self, who: Identity, generation: int) -> list[tuple[dict[str, Any], Answer]]:
        """Heartbeat."""
        ours = self._on_ours(who)
        return self._do(
            "heartbeat",
            lambda m, t, now: m.heartbeat(ours, generation, t, now),
            who,
            generation=generation,
        )

    def leave(self, group_id: str, leavers: Iterable[Leaver]) -> None:
        """LeaveGroup."""
        ours = [each._replace(member_id=self.names.ours[each.member_id]) for each in leavers]
        kafkas = [[self.names.kafkas[each.member_id], each.instance_id] for each in leavers]
        self._do(
            "leave",
            lambda m, t, now: m.leave(group_id, ours, t, now),
            Identity(group_id),
            members=kafkas,
        )

    def commit(self, who: Identity, generation: int, *, transactional: bool) -> None:
        """Whether a commit would be accepted; a sign of life."""
        committer = Committer(*self._on_ours(who), generation, transactional)

        def check(machine: ClassicGroups, token: Token, now: Now) -> Effects:
            error = machine.check_commit(committer, now)
            return Effects(answers=((token, {"error_code": error}),))

        self._do("commit", check, who, generation=generation, transactional=transactional)

    def delete(self, group_id: str) -> None:
        """DeleteGroups."""

        def delete(machine: ClassicGroups, token: Token, now: Now) -> Effects:
            error = machine.check_delete(group_id)
            records = machine.tombstones(group_id) if error is ErrorCode.none else ()
            return Effects(records, ((token, {"error_code": error}),))

        self._do("delete", delete, Identity(group_id))

    def advance(self, ms: int) -> list[tuple[dict[str, Any], Answer]]:
        """Let time pass."""
        self.trace.append((self.driver.now.ms, "advance", {"ms": ms}))
        before = len(self.driver.log)
        self.driver.advance(ms)
        return self._compare(self._kafka.ask("advance", ms=ms), before)

    def fail_over(self) -> None:
        """Both load their logs anew; who waits is never answered."""
        self.trace.append((self.driver.now.ms, "failover", {}))
        before = len(self.driver.log)
        self.driver.fail_over()
        self._unanswered.clear()
        self._compare(self._kafka.ask("failover"), before)

    def _on_ours(self, who: Identity) -> Identity:
        return who._replace(member_id=self.names.ours[who.member_id])

    def _do(
        self, op: str, operation: Operation, who: Identity, **fields: Any
    ) -> list[tuple[dict[str, Any], Answer]]:
        self.trace.append((self.driver.now.ms, op, {"who": who, **fields}))
        before = len(self.driver.log)
        token = self.driver.perform(operation)
        self._unanswered[token] = (op, {"who": who, **fields})
        kafkas = self.names.kafkas[who.member_id]
        identity = {"group": who.group_id, "member": kafkas, "instance": who.instance_id}
        return self._compare(self._kafka.ask(op, token, **identity, **fields), before)

    # -- comparing

    def _compare(self, reply: Reply, before: int) -> list[tuple[dict[str, Any], Answer]]:
        answers = {t: self.driver.answers[t] for t in self._unanswered if t in self.driver.answers}
        kafkas = {Token(token): answer for token, answer in reply.answers.items() if token}
        assert kafkas.keys() <= answers.keys(), "Kafka answers more"
        learned = []
        for token, answer in answers.items():
            if token in kafkas and answer.get("member_id"):
                self.names.learn(answer["member_id"], kafkas[token]["member"])
        for token, answer in answers.items():
            _, request = self._unanswered[token]
            if token in kafkas:
                self._compare_answer(answer, kafkas[token])
                learned.append((request, answer))
                self.counts[answer["error_code"].name] += 1
            else:
                assert self._may_be_ours_alone(token, answer), "only ours answers"
                self.counts["only ours answers"] += 1
        for token in answers:
            del self._unanswered[token]
        self._compare_records(reply.records, before)
        self._compare_groups(reply.groups)
        return learned

    def _may_be_ours_alone(self, token: Token, answer: Answer) -> bool:
        """See `nodes.coordinators.groups.classic.joining`: Kafka never answers these."""
        op, request = self._unanswered[token]
        replaced = any(
            later > token and other == op and newer["who"] == request["who"]
            for later, (other, newer) in self._unanswered.items()
        )
        removed = op == "sync" and answer["error_code"] is ErrorCode.unknown_member_id
        return removed or (replaced and answer["error_code"] is ErrorCode.rebalance_in_progress)

    def _compare_answer(self, ours: Answer, kafkas: dict[str, Any]) -> None:
        assert ours["error_code"].value == kafkas["error"]
        if "generation_id" in ours:
            self._compare_joined(ours, kafkas)
        elif "assignment" in ours:
            assert ours["assignment"].hex() == kafkas["assignment"]
            assert ours["protocol_name"] == kafkas["protocol"]
        elif "members" in ours:
            codes = [each["error_code"].value for each in ours["members"]]
            assert codes == kafkas["members"]

    def _compare_joined(self, ours: Answer, kafkas: dict[str, Any]) -> None:
        assert ours["generation_id"] == kafkas["generation"]
        assert ours["skip_assignment"] == kafkas["skip"]
        if ours["error_code"] is not ErrorCode.none:
            return
        assert ours["protocol_name"] == kafkas["protocol"]
        assert ours["protocol_type"] == kafkas["type"]
        if self.names.of_ours(ours["leader"]) == self.names.of_kafkas(kafkas["leader"]):
            members = {
                self.names.of_ours(each["member_id"]): each["metadata"].hex()
                for each in ours["members"]
            }
            assert members == {
                self.names.of_kafkas(each): metadata for each, metadata in kafkas["members"].items()
            }

    def _compare_records(self, kafkas: list[CoordinatorRecord], before: int) -> None:
        ours = [each.record for each in self.driver.log[before:] if isinstance(each, Appended)]
        assert [self._told(each, self.names.of_ours) for each in ours] == [
            self._told(each, self.names.of_kafkas) for each in kafkas
        ]
        self.counts["records"] += len(ours)

    def _told(self, record: CoordinatorRecord, name: Callable[[str | None], str]) -> Any:
        """A record with names instead of ids, the members in any order."""
        decoded = _TYPES.decode(record)
        assert decoded is not None
        value = decoded.value
        if value is None:
            return decoded.key
        return (
            decoded.key,
            (record.value or b"")[:2],
            (value.protocol_type, value.generation, value.protocol, name(value.leader)),
            value.current_state_timestamp,
            sorted(
                (
                    name(each.member_id),
                    each.group_instance_id or "",
                    (each.client_id, each.client_host),
                    (each.rebalance_timeout, each.session_timeout),
                    (each.subscription, each.assignment),
                )
                for each in value.members
            ),
        )

    def _compare_groups(self, kafkas: dict[str, dict[str, Any]]) -> None:
        groups = self.driver.machine.groups
        assert groups.keys() == kafkas.keys()
        for group_id, theirs in kafkas.items():
            group = groups[group_id]
            self.counts[theirs["state"]] += 1
            assert group.state.value == theirs["state"]
            assert (group.generation, group.protocol) == (theirs["generation"], theirs["protocol"])
            assert group.protocol_type == theirs["type"]
            assert (len(group.pending_joins), len(group.joined)) == (
                theirs["pending"],
                theirs["waiting"],
            )
            members = [
                [self.names.of_ours(m.member_id), m.assignment.hex(), m.session_timeout_ms]
                for m in group.members.values()
            ]
            assert sorted(members) == sorted(
                [self.names.of_kafkas(each), *fields[:2]]
                for each, fields in theirs["members"].items()
            )
            leader = self.names.of_kafkas(theirs["leader"])
            if leader in self.names.ours and leader != self.names.of_ours(group.leader):
                assert self.names.ours[leader] in group.members
                group.leader = self.names.ours[leader] or None
                self.counts["other leader"] += 1
