"""Members of a classic group, for tests that tell a story: they join, sync, leave, and fail.

A scene is one group on one coordinator, behind the fake shell (`machine_driver`). A member does
what a client does: it joins anew with the id that it was given, and remembers its generation.
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from kio.schema.errors import ErrorCode

from nodes.coordinators.groups.classic.groups import ClassicGroups
from nodes.coordinators.groups.classic.requests import (
    Client,
    Identity,
    Join,
    Leaver,
    MemberProtocol,
    Sync,
)
from nodes.coordinators.groups.settings import ClassicSettings
from nodes.coordinators.machine import Answer, Effects, Now, Token
from tests.support.nodes.machine_driver import MachineDriver

GROUP = "readers"
NO_DELAY = ClassicSettings(initial_rebalance_delay_ms=0)
SESSION_MS = 10_000
REBALANCE_MS = 60_000
RANGE = (MemberProtocol("range", b"r"),)


class Scene:
    """A coordinator of classic groups, and the members of one group on it."""

    def __init__(self, settings: ClassicSettings = NO_DELAY, seed: int = 1) -> None:
        random = Random(seed)
        self.driver: MachineDriver[Any] = MachineDriver(lambda: ClassicGroups(settings, random))
        self.actors: list[Actor] = []

    @property
    def groups(self) -> ClassicGroups:
        """The machine that leads now."""
        return self.driver.machine

    @property
    def group(self) -> Any:
        """The group, as its coordinator knows it."""
        return self.groups.groups[GROUP]

    @property
    def state(self) -> str:
        """The group's state, by Kafka's name."""
        return str(self.group.state.value)

    def after(self, ms: float) -> None:
        """Let time pass."""
        self.driver.advance(ms)
        self.learn()

    def perform(self, operation: Callable[[ClassicGroups, Token, Now], Effects]) -> Token:
        """Run an operation; all members see the answers that it gives."""
        token = self.driver.perform(operation)
        self.learn()
        return token

    def learn(self) -> None:
        """All members see their answers."""
        for each in self.actors:
            each.learn()

    def member(self, name: str, **wishes: Any) -> "Actor":
        """A client that has not joined yet."""
        self.actors.append(Actor(self, name, **wishes))
        return self.actors[-1]

    def stable(self, *actors: "Actor") -> None:
        """Let exactly these join together, and sync. The first leads a new group."""
        for each in actors:
            each.join()
        self.after(0)
        leader = next(each for each in actors if each.leads)
        for each in actors:
            if each is not leader:
                each.sync()
        leader.sync({each: each.name.encode() for each in actors})
        assert self.state == "Stable"


@dataclass(eq=False)
class Actor:
    """A client of the group."""

    scene: Scene
    name: str
    instance_id: str | None = None
    protocols: tuple[MemberProtocol, ...] = RANGE
    protocol_type: str = "consumer"
    session_ms: int = SESSION_MS
    rebalance_ms: int = REBALANCE_MS
    version: int = 9
    member_id: str = ""
    generation: int = -1
    join_token: Token | None = None
    sync_token: Token | None = None
    learned: Answer | None = None

    @property
    def identity(self) -> Identity:
        """The member, as its requests name it."""
        return Identity(GROUP, self.member_id, self.instance_id)

    def send_join(self) -> Answer | None:
        """Send one JoinGroup; return its answer, if it is answered at once."""
        request = Join(
            who=self.identity,
            client=Client(self.name, "/127.0.0.1"),
            protocol_type=self.protocol_type,
            protocols=self.protocols,
            session_timeout_ms=self.session_ms,
            rebalance_timeout_ms=self.rebalance_ms,
            version=self.version,
        )
        self.join_token = self.scene.perform(lambda m, token, now: m.join(request, token, now))
        self.learn()
        return self.joined

    def join(self) -> "Actor":
        """Join, and again with the id that the coordinator gives."""
        answer = self.send_join()
        if answer is not None and answer["error_code"] is ErrorCode.member_id_required:
            self.member_id = answer["member_id"]
            self.send_join()
        return self

    @property
    def joined(self) -> Answer | None:
        """The answer to its last JoinGroup; None while it waits."""
        return self.scene.driver.answers.get(self.join_token)

    def learn(self) -> None:
        """Take its id and its generation from the answer to its last JoinGroup, once."""
        answer = self.joined
        if answer is not None and answer is not self.learned:
            self.learned = answer
            if answer["error_code"] is ErrorCode.none:
                self.member_id = answer["member_id"]
                self.generation = answer["generation_id"]

    @property
    def join_error(self) -> ErrorCode:
        """How its last JoinGroup ended."""
        assert self.joined is not None, f"{self.name} waits to join"
        return self.joined["error_code"]

    @property
    def leads(self) -> bool:
        """Whether it is the leader of the generation that it joined."""
        return self.joined is not None and self.joined["leader"] == self.member_id

    def sync(self, assignment: "dict[Actor, bytes] | None" = None) -> Answer | None:
        """Send SyncGroup, as the leader with an assignment."""
        parts = tuple((each.member_id, part) for each, part in (assignment or {}).items())
        request = Sync(self.identity, self.generation, self.protocol_type, None, parts)
        self.sync_token = self.scene.perform(lambda m, token, now: m.sync(request, token, now))
        return self.synced

    @property
    def synced(self) -> Answer | None:
        """The answer to its last SyncGroup; None while it waits."""
        return self.scene.driver.answers.get(self.sync_token)

    @property
    def assignment(self) -> bytes:
        """What its last SyncGroup brought."""
        assert self.synced is not None, f"{self.name} waits for its assignment"
        assert self.synced["error_code"] is ErrorCode.none
        return self.synced["assignment"]

    @property
    def sync_error(self) -> ErrorCode:
        """How its last SyncGroup ended."""
        assert self.synced is not None, f"{self.name} waits for its assignment"
        return self.synced["error_code"]

    def heartbeat(self) -> ErrorCode:
        """Send a heartbeat."""
        token = self.scene.perform(
            lambda m, token, now: m.heartbeat(self.identity, self.generation, token, now)
        )
        return self.scene.driver.answers[token]["error_code"]

    def leave(self) -> ErrorCode:
        """Leave the group."""
        leavers = [Leaver(self.member_id, self.instance_id)]
        token = self.scene.perform(lambda m, token, now: m.leave(GROUP, leavers, token, now))
        return self.scene.driver.answers[token]["members"][0]["error_code"]
