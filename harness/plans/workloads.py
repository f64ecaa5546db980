"""The workloads of a plan: producers and consumers, and further ones beside them.

`Workload` has the producers and consumers. A plan names further workloads in the list
`[[workload]]`, where each entry has a `kind`: consumer groups, copies from topic to topic,
transactions, compacted topics, a program of the user. This module has a class for each kind but the
last, which `harness.plans.app_workload` has. Other packages declare further kinds
(`harness.plans.workload_kind`). `harness.plans.workload_topics` says which workload uses which
topic.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, model_validator

from harness.plans.app_workload import AppWorkload
from harness.plans.plugged import CLIENTS, OneOf
from harness.plans.workload_kinds import (
    KIND_NAMES,
    PLUGGED,
    PRODUCE,
    PluggedWorkload,
    kind_of,
    no_kind,
    tag,
)

PROGRAM: Final = "program"
"""The client that is a program of the user's."""

_Share = Annotated[float, Field(ge=0, le=1)]
_Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,249}$")]


OwnClient = Literal["librdkafka", "own", "kafka-python", "aiokafka", "java", "program"]
"""highwater's client libraries of producers and consumers; `own` is our asyncio client, and
`program` is a program in any language."""
CLIENT_NAMES: Final = OneOf(get_args(OwnClient), CLIENTS)
"""All clients, with the client programs of other packages."""
ClientName = Annotated[str, CLIENT_NAMES]

FURTHER_CLIENTS: Final = OneOf(
    tuple(each for each in get_args(OwnClient) if each != "kafka-python"), CLIENTS
)
FurtherClient = Annotated[str, FURTHER_CLIENTS]
"""The client library of a further workload."""

COMPACTED: Final = "compacted"
ANY_CLIENT: Final = ("group", "copy", "transactions", COMPACTED)
"""The kinds of further workloads that have a choice of clients."""
MAX_COUNT: Final = (1 << 31) - 1
"""No count is larger: clients and brokers keep them in 32 bits."""


class _Frozen(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True
    )


class _Clients(_Frozen):
    """Which clients a workload has."""

    client: str
    client_command: tuple[str, ...] = ()
    """For client `program`: the command that starts the program, and its arguments. The program
    speaks the clients' protocol (docs/clients-protocol.md)."""

    @model_validator(mode="after")
    def _a_program_has_a_command(self) -> Self:
        if self.client == PROGRAM and not self.client_command:
            raise ValueError(
                "client program: client_command is missing; name the program that speaks the "
                'clients\' protocol, for example client_command = ["./my-client"]'
            )
        if self.client != PROGRAM and self.client_command:
            raise ValueError(
                f"client_command is only for client program, and the client is {self.client}: "
                'remove it, or write client = "program"'
            )
        return self


class Workload(_Clients):
    """The producers and consumers of each topic."""

    client: ClientName = "librdkafka"
    """The client library; `own` is highwater's own asyncio client, `java` is Kafka's, and `program`
    is a program that `client_command` starts."""
    producers: int = Field(default=2, ge=0, le=100)
    """Per topic."""
    consumers: int = Field(default=1, ge=0, le=100)
    """Per topic; each consumer reads all partitions of the topic."""
    rate_per_s: float = Field(default=200.0, ge=0, le=10_000_000)
    """Sends per second of each producer; 0 means as fast as it can."""
    value_bytes: int = Field(default=128, ge=64, le=1_000_000)
    """Size of a record's value, bytes."""
    max_in_flight: int = Field(default=1000, ge=1, le=MAX_COUNT)
    """How many sends of one producer may wait for their outcome."""
    linger_ms: float = Field(default=2.0, ge=0, le=900_000)
    """How long a producer waits for more records before it sends a batch, ms."""
    message_timeout_ms: int = Field(default=10_000, ge=1, le=MAX_COUNT)
    """A send without an answer is given up after this time, and its outcome is unknown."""
    sends_per_producer: int = Field(default=0, ge=0, le=MAX_COUNT)
    """After so many sends a producer ends and a new one begins, with a new producer id; 0 means
    never. In one run about 900 clients of a topic can begin; the last of them stay."""
    payload: Literal["binary", "text"] = "binary"
    """The form of values. `text` is JSON with an id, for a program that is tested (workload kind
    `app`); only client `librdkafka` writes it."""
    insists: bool = False
    """Only for client `own`: when a broker has refused a sequence number, send again the records
    that may have been written, as other clients do, instead of giving them up."""
    zombie_batches: bool = False
    """Only for client `own`: a producer that has begun a new epoch (KIP-360) sends one batch of its
    last epoch again. Brokers must refuse it."""
    topics: tuple[str, ...] = ()
    """The topics with these clients, by name. Empty means all topics that no further workload names
    to write to."""


class _Kind(_Clients):
    client: FurtherClient = "librdkafka"
    """The client library; `own` is highwater's own asyncio client, and the only one in simulated
    worlds. `java` is Kafka's, and `program` is a program that `client_command` starts."""


class _Members(_Kind):
    """The members of one consumer group."""

    group: _Name
    """The group's id."""
    members: int = Field(default=2, ge=1, le=100)
    """Members at a time."""
    protocol: Literal["classic", "consumer"] = "classic"
    """The protocol of the group: `classic` (JoinGroup), or `consumer` (KIP-848)."""
    static: bool = False
    """Members are static (KIP-345): a replaced member comes back with the same instance id."""
    session_timeout_ms: int = Field(default=6_000, ge=1, le=1_800_000)
    """After this time without a heartbeat a member of the classic protocol is removed. With
    protocol `consumer` the broker's `group.consumer.session.timeout.ms` decides. A rebalance may
    take so long, too."""
    member_life_s: float = Field(default=20.0, ge=0, le=31_622_400)
    """About how long a member takes part before another one replaces it; 0 means until the end.
    Half of the members leave the group, the others vanish."""

    @model_validator(mode="after")
    def _aiokafka_is_classic(self) -> Self:
        if self.client == "aiokafka" and self.protocol != "classic":
            raise ValueError(
                f"client aiokafka does not speak protocol {self.protocol}: write protocol = "
                '"classic", or choose client librdkafka, own or java'
            )
        return self


def _check_one(name: str, names: tuple[str, ...], one: str, several: str) -> None:
    """Check that a group has one topic, or a list of different ones."""
    if not name and not names:
        raise ValueError(f"{one} is missing: name the topic that the group reads, or {several}")
    if name and names:
        raise ValueError(f"{one} and {several} are both given: write one of them")
    if len(set(names)) < len(names):
        raise ValueError(f"{several} names a topic twice: remove one of them")


class GroupWorkload(_Members):
    """Members of a consumer group that read one topic, or several."""

    kind: Literal["group"]
    """The kind of workload."""
    topic: str = ""
    """The topic that the group reads."""
    topics: tuple[str, ...] = ()
    """The topics that the group reads, instead of `topic`."""
    processing: Literal["at-most-once", "at-least-once"] = "at-least-once"
    """What the group promises: `at-most-once` commits an offset before its record counts as
    processed, `at-least-once` afterwards."""
    isolation: Literal["read_committed", "read_uncommitted"] = "read_committed"
    """What members get of transactions: `read_uncommitted` includes the records of open and of
    aborted ones. It matters only for a topic that gets transactions."""

    @property
    def read_topics(self) -> tuple[str, ...]:
        """The topics that the group reads, at least one."""
        return self.topics or (self.topic,)

    @model_validator(mode="after")
    def _reads_something(self) -> Self:
        _check_one(self.topic, self.topics, "topic", "topics")
        return self


class CopyWorkload(_Members):
    """A consumer group that copies the records of one topic, or of several, to another one."""

    kind: Literal["copy"]
    """The kind of workload."""
    input: str = ""
    """The topic that the group reads."""
    inputs: tuple[str, ...] = ()
    """The topics that the group reads, instead of `input`."""
    output: str
    """The topic that gets the copies; nothing else writes to it."""
    processing: Literal["exactly-once", "at-least-once"] = "exactly-once"
    """What the group promises: `exactly-once` writes the copies and the offsets in one transaction,
    `at-least-once` commits the offsets after the copies were acknowledged."""
    group_metadata: bool = True
    """Offsets are sent to a transaction with the member and its generation (KIP-447)."""
    value_bytes: int = Field(default=128, ge=64, le=1_000_000)
    """Size of a copy's value, bytes."""
    transaction_timeout_ms: int = Field(default=10_000, ge=1, le=900_000)
    """After this time the coordinator aborts a transaction."""

    @property
    def read_topics(self) -> tuple[str, ...]:
        """The topics that the group reads, at least one."""
        return self.inputs or (self.input,)

    @model_validator(mode="after")
    def _reads_something(self) -> Self:
        _check_one(self.input, self.inputs, "input", "inputs")
        return self

    @model_validator(mode="after")
    def _aiokafka_sends_no_metadata(self) -> Self:
        exactly_once = self.processing == "exactly-once"
        if self.client == "aiokafka" and exactly_once and self.group_metadata:
            raise ValueError(
                "client aiokafka cannot send the member with its offsets (KIP-447): write "
                "group_metadata = false, or choose client librdkafka, own or java"
            )
        return self


class TransactionWorkload(_Kind):
    """Producers that write transactions."""

    kind: Literal["transactions"]
    """The kind of workload."""
    topics: tuple[str, ...] = ()
    """The topics with these producers, by name; empty means all but the output of copies."""
    producers: int = Field(default=2, ge=1, le=100)
    """Per topic, each with a transactional id of its own."""
    consumers: int = Field(default=1, ge=0, le=100)
    """Per topic; each consumer reads all partitions of the topic at read_committed."""
    rate_per_s: float = Field(default=10.0, ge=0, le=1_000_000)
    """Transactions per second of each producer; 0 means as fast as it can."""
    records: int = Field(default=4, ge=1, le=10_000)
    """Records of a transaction."""
    partitions: int = Field(default=2, ge=1, le=1_000)
    """Partitions of each topic that a transaction writes to."""
    topics_each: int = Field(default=1, ge=1, le=100)
    """Topics that a transaction writes to: the one of its producer, and others of the workload."""
    abort_share: _Share = 0.2
    """Share of the transactions that their producer aborts."""
    open_share: _Share = 0.02
    """Share of the transactions that their producer leaves open. Another producer takes over its
    transactional id, and then the old one tries to go on."""
    value_bytes: int = Field(default=128, ge=64, le=1_000_000)
    """Size of a record's value, bytes."""
    transaction_timeout_ms: int = Field(default=10_000, ge=1, le=900_000)
    """After this time the coordinator aborts a transaction."""

    @model_validator(mode="after")
    def _each_topic_has_a_record(self) -> Self:
        if self.topics_each > self.records:
            raise ValueError(
                f"topics_each is {self.topics_each}, and a transaction has {self.records} records: "
                "write more records, or fewer topics"
            )
        return self


class CompactedWorkload(_Clients):
    """Producers that write and delete the keys of compacted topics. All of them write the same
    keys. In the end the last record of each key must be there, as its producer knows it."""

    kind: Literal["compacted"]
    """The kind of workload."""
    client: ClientName = "librdkafka"
    """The client library; `own` is highwater's own asyncio client, and the only one in simulated
    worlds. `java` is Kafka's, and `program` is a program that `client_command` starts and that
    speaks version 2 of the clients' protocol."""
    topics: tuple[str, ...] = Field(min_length=1)
    """The topics with these producers, by name. Their `configs` need a `cleanup.policy` with
    `compact`, and no other workload may use them."""
    producers: int = Field(default=2, ge=1, le=100)
    """Per topic."""
    rate_per_s: float = Field(default=100.0, ge=0, le=1_000_000)
    """Sends per second of each producer; 0 means as fast as it can."""
    keys: int = Field(default=8, ge=1, le=1_000_000)
    """How many keys of each partition a producer writes at a time."""
    sends_per_key: int = Field(default=50, ge=1, le=MAX_COUNT)
    """After so many sends a producer leaves its lowest key for good, and begins another one. So
    the last records of most keys are old when the run ends."""
    delete_share: _Share = 0.2
    """Share of the sends that delete their key."""
    value_bytes: int = Field(default=128, ge=64, le=1_000_000)
    """Size of a record's value, bytes."""
    passes_every_s: float = Field(default=0.0, ge=0, le=86_400)
    """The pause of a reader between two passes, s. A pass reads a partition from its beginning to
    its end while the run goes on. With passes `analyze --follow` can alarm. 0 means no reader."""


FurtherWorkload = Annotated[
    Annotated[GroupWorkload, Tag("group")]
    | Annotated[CopyWorkload, Tag("copy")]
    | Annotated[TransactionWorkload, Tag("transactions")]
    | Annotated[CompactedWorkload, Tag("compacted")]
    | Annotated[AppWorkload, Tag("app")]
    | Annotated[PluggedWorkload, Tag(PLUGGED)],
    Discriminator(tag),
]
"""A workload beside the plan's own one."""


def split(entries: Sequence[object]) -> tuple[object, list[object]]:
    """Return the producers and consumers, and the further workloads, of a list `[[workload]]`.

    Without an entry of kind `produce` there are no producers and consumers. Raises ValueError if
    there are several such entries, or for a kind that does not exist.
    """
    names = KIND_NAMES.names()
    if unknown := [kind for each in entries if (kind := kind_of(each)) not in names]:
        raise ValueError(f"workload: {no_kind(unknown[0])}")
    own = [each for each in entries if kind_of(each) == PRODUCE]
    if len(own) > 1:
        raise ValueError(
            f"workload: {len(own)} entries have kind {PRODUCE} (or no kind), and a plan has one; "
            "remove the others"
        )
    further = [each for each in entries if kind_of(each) != PRODUCE]
    if not own:
        return {"producers": 0, "consumers": 0}, further
    found = own[0]
    if isinstance(found, dict):
        found = {name: value for name, value in found.items() if name != "kind"}
    return found, further


def changed_entries(entries: Sequence[object], changes: Mapping[str, Any]) -> list[object]:
    """Return a list `[[workload]]` with another client, and producers with another rate. A further
    workload keeps its client if the other one cannot run it. Of a program, nobody knows that before
    it is asked: `harness.workloads.clients.libraries` refuses what it cannot do."""
    changes = with_command(changes)
    client = {key: value for key, value in changes.items() if key in ("client", "client_command")}

    def changed(kind: object) -> Mapping[str, Any]:
        if kind == PRODUCE:
            return changes
        every = kind == COMPACTED or _runs_every_kind(changes.get("client"))
        return client if every and kind in ANY_CLIENT else {}

    return [
        {**each, **changed(kind_of(each))} if isinstance(each, dict) else each for each in entries
    ]


def _runs_every_kind(client: object) -> bool:
    """Whether a client runs every further workload; a program says itself what it can do."""
    return client != "aiokafka" and client in FURTHER_CLIENTS.names()


def with_command(changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changes of a workload: a command means client `program`, and another client has
    none."""
    if "client_command" in changes:
        return {"client": PROGRAM, **changes}
    if changes.get("client", PROGRAM) != PROGRAM:
        return {**changes, "client_command": ()}
    return dict(changes)
