"""The plan of a run: the cluster, its topics, the workload, the faults and the expectations.

A plan is frozen, validated data. It comes from TOML and the flags on top of it, or from the
plan.json of an earlier run. This module checks each value by itself. `harness.run.prepare` checks
the values against each other and against the target, and fixes the schedule of faults. A PlanError
lists everything that is wrong with the values: where, what, and what to do about it.
"""

import json
import secrets
import tomllib
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_serializer,
    field_validator,
    model_validator,
)

from checkers import expectations
from checkers.expectations import BadExpectation
from harness.plans import properties
from harness.plans.durations import MAX_DURATION_MS, MAX_DURATION_S
from harness.plans.errors import TOO_DEEP, unreadable
from harness.plans.errors import PlanError as PlanError
from harness.plans.plugged import SYSTEMS, TARGETS, OneOf
from harness.plans.problems import describe_problems, nearest
from harness.plans.properties import Value
from harness.plans.simulated import Simulated as Simulated
from harness.plans.workloads import MAX_COUNT as MAX_COUNT
from harness.plans.workloads import FurtherWorkload, changed_entries, split, with_command
from harness.plans.workloads import Workload as Workload
from nemesis.base import NemesisError
from nemesis.schedule import Event, ScheduleFile, read

FIRST_LIGHT = "first-light"
"""The packaged plan that `highwater run` takes when no plan is named."""


class _Frozen(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True
    )


def _acks(value: object) -> object:
    if isinstance(value, bool) or value not in (0, 1, -1, "all"):
        raise ValueError(f'acks is 0, 1 or "all", not {json.dumps(value, default=str)}')
    return -1 if value == "all" else value


Acks = Annotated[Literal[0, 1, -1], BeforeValidator(_acks)]
"""0, 1 or -1; -1 may be written `all`."""


class Topic(_Frozen):
    """One topic, and the acks setting of its producers."""

    name: str = Field(pattern=r"^[A-Za-z0-9._-]{1,249}$")
    """The topic's name."""
    acks: Acks
    """What producers wait for: 0 (nothing), 1 (the leader), `all` (all in-sync replicas)."""
    partitions: int = Field(default=3, ge=1, le=1000)
    """Number of partitions."""
    replication_factor: int = Field(default=3, ge=1, le=1000)
    """Replicas of each partition."""
    min_insync_replicas: int = Field(default=2, ge=1, le=1000)
    """`min.insync.replicas`: with fewer in sync, `acks = "all"` is refused."""
    idempotence: bool = False
    """Producers are idempotent (KIP-98)."""
    configs: dict[str, str] = {}
    """Further topic configs, by Kafka's names."""


_Length = Annotated[int, Field(ge=1, le=MAX_DURATION_MS)]
Range = tuple[_Length, _Length]
"""Least and greatest."""

Parameter = str | tuple[int, int] | tuple[float, float] | tuple[str, ...]
"""A fault's parameter: one value, a range [least, greatest], or a list of texts to choose from."""


def _as_text(value: object) -> object:
    """Write a single number as the text of a parameter. Raises ValueError for an empty list."""
    if isinstance(value, list | tuple) and not value:
        raise ValueError("the list is empty; give it values to choose from, or remove it")
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return value


class FaultMix(_Frozen):
    """Settings of one fault in a random mix. An empty value means the setting of all faults."""

    weight: int = Field(default=1, ge=0, le=100)
    """How often the fault comes compared with a fault of weight 1."""
    targets: tuple[str, ...] = ()
    """Selectors for this fault."""
    duration_ms: Range | None = None
    """How long this fault lasts, ms."""
    params: dict[str, Annotated[Parameter, BeforeValidator(_as_text)]] = {}
    """Parameters of the fault: a value, a range, or a list to choose from."""


class QuietPeriods(_Frozen):
    """Repeated periods without faults, in which the cluster can recover."""

    every_ms: int = Field(ge=1, le=MAX_DURATION_MS)
    """How long faults go on before each quiet period."""
    for_ms: int = Field(ge=1, le=MAX_DURATION_MS)
    """How long a quiet period is."""


class Nemesis(_Frozen):
    """The faults: a list of events, or a random mix that the plan's seed decides."""

    events: tuple[Event, ...] = ()
    """Scripted faults; there is then no random mix."""
    faults: tuple[str, ...] = ()
    """Names of faults for a random mix, or patterns such as `partition.*` and `*`."""
    mix: dict[str, FaultMix] = {}
    """Settings by the fault's name. Faults that are named only here take part too."""
    targets: tuple[str, ...] = ("one", "leader", "controller")
    """The targets from which a random mix chooses."""
    interval_ms: Range = (2_000, 6_000)
    """The pause between the end of a fault and the start of the next fault or burst, ms. With
    `overlap` above 1 it is the time from the start of the last fault or, if as many faults are in
    force as `overlap` allows, from the moment when the first of them ends."""
    rate_per_min: float | None = Field(default=None, gt=0, le=6_000)
    """How many faults or bursts begin in a minute. Replaces the interval."""
    duration_ms: Range = (2_000, 8_000)
    """How long a fault of a random mix lasts, ms."""
    overlap: int = Field(default=1, ge=1, le=15)
    """How many faults may be in force at once."""
    burst: Range = (1, 1)
    """How many faults begin together. Those that `overlap` does not allow yet follow without a
    pause, each as soon as another one ends."""
    quiet: QuietPeriods | None = None
    """Periods without faults."""
    majority: bool = False
    """Whether overlapping faults together may hit a majority of the nodes."""
    mode: Literal["strict", "auto"] = "strict"
    """For faults that the target cannot inject: `strict` refuses the plan, `auto` leaves the faults
    out and notes it."""


def _expected(value: object) -> object:
    return tuple(each.text for each in expectations.read(value))


Expect = Annotated[tuple[str, ...], BeforeValidator(_expected)]
"""What the user expects in addition to the contract, in the form of `checkers.expectations`."""

_TOPICS = (
    Topic(name="acks-0", acks=0),
    Topic(name="acks-1", acks=1),
    Topic(name="acks-all", acks=-1, idempotence=True),
)


SYSTEM_NAMES: Final = OneOf(("nodes", "kafka", "external"), SYSTEMS)
System = Annotated[str, SYSTEM_NAMES]
"""The built-in broker, Apache Kafka, a cluster that somebody else runs, or a system of another
package."""
TARGET_NAMES: Final = OneOf(("local", "docker", "ssh", "vagrant", "sim"), TARGETS)
"""Where nodes live; other packages may have further targets."""


class External(_Frozen):
    """The cluster of system `external`, and how clients connect to it."""

    bootstrap_servers: str = Field(min_length=1)
    """Addresses of brokers: host:port, with commas."""
    properties: dict[str, str] = {}
    """Client properties by librdkafka's names. `env:NAME` means the value of that environment
    variable."""

    def resolved(self) -> dict[str, str]:
        """Return the properties with the values of environment variables. Raises PlanError."""
        found = properties.resolved(self.properties, "external.properties")
        return {name: str(value) for name, value in found.items()}

    @field_serializer("properties", when_used="json")
    def _without_secrets(self, found: dict[str, str]) -> dict[str, Value]:
        return properties.without_secrets(found)


Rack = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,100}$")]


class Plan(_Frozen):
    """Everything that decides a run, together with the commit."""

    name: str = Field(default=FIRST_LIGHT, pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")
    """The plan's name; runs are stored under it."""
    seed: int = Field(ge=0, le=(1 << 63) - 1)
    """Everything random is derived from it."""
    target: Annotated[str, TARGET_NAMES] = "local"
    """Where the nodes live."""
    inventory: str | None = None
    """For target ssh: the file that lists the machines."""
    system: System = "nodes"
    """What is tested: the built-in broker (`nodes`), Apache Kafka (`kafka`), or a cluster that
    already runs (`external`)."""
    kafka_home: str | None = None
    """For system kafka: the directory of an unpacked distribution. Default: `$KAFKA_HOME`, or what
    `make kafka` has fetched."""
    external: External | None = None
    """For system external."""
    nodes: int = Field(default=3, ge=1, le=15)
    """Number of nodes."""
    control_plane: Literal["quorum", "zookeeper"] = "quorum"
    """Who elects leaders and remembers topics: the metadata quorum of the nodes (`quorum`), or a
    controller that keeps everything in ZooKeeper (`zookeeper`). For systems nodes and kafka on
    target local."""
    zookeepers: int = Field(default=3, ge=1, le=9)
    """For control_plane zookeeper: number of ZooKeeper nodes beside the `nodes`. Their numbers
    begin at 101."""
    racks: tuple[Rack, ...] = ()
    """The racks of the nodes, given out in turn; a partition's replicas are spread over them."""
    broker_module: str = Field(default="nodes", pattern=r"^[A-Za-z_][\w.]*$")
    """The module that `python -m` starts on each node."""
    broker: dict[str, Value] = {}
    """Broker properties in addition to the harness's own, by Kafka's names. `env:NAME` means the
    value of that environment variable."""
    warmup_s: float = Field(default=5.0, ge=0, le=MAX_DURATION_S)
    """How long clients run before the first fault, s."""
    duration_s: float = Field(default=60.0, ge=0.001, le=MAX_DURATION_S)
    """Length of the chaos phase."""
    start_timeout_s: float = Field(default=30.0, gt=0, le=MAX_DURATION_S)
    """How long the cluster may take to start completely, and then every topic until its first
    acknowledgement. Systems that are known to be slow get a multiple of it."""
    settle_timeout_s: float = Field(default=30.0, gt=0, le=MAX_DURATION_S)
    """How long after the last fault is healed every replica may take to be in sync again."""
    rotate_s: float | None = Field(default=None, ge=0.1, le=MAX_DURATION_S)
    """Write the history in segments of this length, and seal each while the run goes on."""
    topics: tuple[Topic, ...] = Field(default=_TOPICS, min_length=1)
    """The topics."""
    workload: Workload = Workload()
    """The producers and consumers. A list, `[[workload]]`, has further workloads beside them, by
    their `kind`: `produce` (or none) is this one."""
    more_workloads: tuple[FurtherWorkload, ...] = ()
    """The further workloads. Write them into the list `[[workload]]`."""
    nemesis: Nemesis = Nemesis()
    """The faults."""
    expect: Expect = ()
    """A table (`lost.acks-all = 0`) or a list of texts. It does not change what the run does."""
    simulated: Simulated = Simulated()
    """For target sim."""

    @model_validator(mode="after")
    def _client_can_send_zombies(self) -> Self:
        simulated = self.target == "sim"
        if self.workload.zombie_batches and self.workload.client != "own" and not simulated:
            raise ValueError(
                "workload.zombie_batches is only for client own: client "
                f"{self.workload.client} gives nobody the bytes of its batches"
            )
        return self

    @model_validator(mode="after")
    def _racks_are_ours_to_give(self) -> Self:
        if self.racks and self.system == "external":
            raise ValueError("racks: whoever runs an external cluster decides its nodes' racks")
        return self

    @field_validator("broker")
    @classmethod
    def _check_broker(cls, broker: dict[str, Value]) -> dict[str, Value]:
        properties.check_broker(broker)
        return broker

    @field_serializer("broker", when_used="json")
    def _without_secrets(self, broker: dict[str, Value]) -> dict[str, Value]:
        return properties.without_secrets(broker)

    def resolved_broker(self) -> dict[str, Value]:
        """Return the broker properties with the values of environment variables.

        Raises PlanError.
        """
        return properties.resolved(self.broker, "broker")

    @model_validator(mode="before")
    @classmethod
    def _entries_are_workloads(cls, raw: object) -> object:
        """Read a list of workloads."""
        if not isinstance(raw, dict) or not isinstance(raw.get("workload"), list):
            return raw
        own, further = split(raw["workload"])
        if not further:
            return {**raw, "workload": own}
        if "more_workloads" in raw:
            raise ValueError("more_workloads: write all workloads into the list [[workload]]")
        return {**raw, "workload": own, "more_workloads": further}

    @model_validator(mode="before")
    @classmethod
    def _bounds_are_expectations(cls, raw: object) -> object:
        """Read `bounds`, which plans had before they had expectations."""
        if not isinstance(raw, dict) or "bounds" not in raw:
            return raw
        rest = {name: value for name, value in raw.items() if name != "bounds"}
        return {**rest, "expect": [each.text for each in expectations.of_plan(raw)]}

    def to_json(self) -> dict[str, Any]:
        """Return the plan as JSON-able data without its secrets. `from_json` reads it back.

        A plan beside the metadata quorum does not name its control plane, as in earlier versions.
        """
        exclude = {"control_plane", "zookeepers"} if self.control_plane == "quorum" else None
        return self.model_dump(mode="json", exclude=exclude)

    @classmethod
    def from_json(cls, raw: Mapping[str, Any], where: str) -> Self:
        """Validate raw data. Raises a PlanError that starts with `where` and lists all problems."""
        try:
            return cls.model_validate(raw)
        except ValidationError as error:
            raise PlanError(f"{where}: {describe_problems(error, cls, 'the plan')}") from error


def packaged() -> tuple[str, ...]:
    """Return the names of the plans and scenarios that come with the harness."""
    return tuple(sorted(packaged_files()))


def packaged_files() -> dict[str, Path]:
    """Return the TOML file of each packaged plan and scenario, by name."""
    plans = resources.files("harness.plans").joinpath("packaged")
    found = [*plans.iterdir(), *plans.joinpath("scenarios").iterdir()]
    return {
        each.name.removesuffix(".toml"): Path(str(each))
        for each in found
        if each.name.endswith(".toml")
    }


def load(source: str | None = None) -> dict[str, Any]:
    """Return the raw data of a plan: of a TOML file or a packaged plan, by default first-light.

    A `schedule` in [nemesis] names a file, relative to the plan's own directory; the events of that
    file replace it. Raises PlanError when a file cannot be read. `build` validates the values.
    """
    if source is None:
        source = FIRST_LIGHT
    path = packaged_files().get(source, Path(source))
    where = f"plan {source}"
    try:
        raw = tomllib.loads(path.read_text())
    except tomllib.TOMLDecodeError as error:
        raise PlanError(f"{where}: is no valid TOML: {error}") from error
    except RecursionError as error:
        raise PlanError(f"{where}: {TOO_DEEP}") from error
    except (OSError, ValueError) as error:  # a name with a null byte is a ValueError
        raise PlanError(
            f"{where}: cannot be read ({unreadable(error)}){nearest(source, packaged())}; give a "
            f"TOML file or a packaged plan: {', '.join(packaged())}"
        ) from error
    nemesis = raw.get("nemesis")
    if not isinstance(nemesis, dict) or "schedule" not in nemesis:
        return raw
    rest = {name: value for name, value in nemesis.items() if name != "schedule"}
    if "events" in rest:
        raise PlanError(f"{where}: nemesis has events and a schedule; keep one of them")
    beside = path.parent / str(nemesis["schedule"])
    return _with_schedule({**raw, "nemesis": rest}, beside, f"{where}: nemesis.schedule")


def _with_schedule(raw: Mapping[str, Any], path: Path, where: str) -> dict[str, Any]:
    """Return the plan with the events of a schedule file, and the file's end and seed if any."""
    try:
        written: ScheduleFile = read(path.read_bytes())
    except (OSError, ValueError, NemesisError) as error:
        why = error if isinstance(error, NemesisError) else f"cannot be read ({unreadable(error)})"
        raise PlanError(f"{where}: {path}: {why}") from error
    events = [event.model_dump(exclude_defaults=True) for event in written.events]
    merged = {**raw, "nemesis": {**_table(raw, "nemesis", where), "events": events}}
    if written.end_ms is not None:
        merged["duration_s"] = written.end_ms / 1000
    if written.seed is not None:
        merged["seed"] = written.seed
    return merged


def _table(raw: Mapping[str, Any], name: str, where: str) -> dict[str, Any]:
    """Return a table of the raw data, empty when it is missing. Raises PlanError when it is
    something else."""
    found = raw.get(name, {})
    if not isinstance(found, dict):
        raise PlanError(f"{where}: {name}: is a table ([{name}]), not {str(found)[:80]}")
    return dict(found)


def _with_load(raw: Mapping[str, Any], changes: Mapping[str, Any], where: str) -> object:
    """Return the workloads with another client, and producers with another rate."""
    found = raw.get("workload", {})
    if isinstance(found, list):
        return changed_entries(found, changes)
    return {**_table(raw, "workload", where), **with_command(changes)}


_PLAIN_FLAGS: Final = (
    "seed", "duration_s", "rotate_s", "nodes", "target", "inventory", "system", "kafka_home",
    "broker_module", "name", "control_plane", "zookeepers",
)  # fmt: skip
_LOAD_FLAGS: Final = ("client", "client_command", "rate_per_s")


def build(raw: Mapping[str, Any], *, where: str, flags: Mapping[str, Any] | None = None) -> Plan:
    """Return the plan of raw data with flags on top. Raises PlanError.

    Flags: seed, duration_s, rotate_s, nodes, acks (keep only the topics of these modes), client,
    client_command, bootstrap_servers (of an external cluster), rate_per_s, faults (a random mix of
    these replaces the planned faults), schedule (a file of events replaces the planned faults),
    nemesis (the mode), target, inventory, system, kafka_home, broker_module, name, control_plane,
    zookeepers, expect (in addition to what the plan expects). A flag that is None changes nothing.
    A plan without a seed gets a random one.
    """
    given = {name: value for name, value in (flags or {}).items() if value is not None}
    merged = {"seed": secrets.randbits(32), **raw}
    if "schedule" in given:
        path = Path(given["schedule"])
        merged = _with_schedule(_without_faults(merged, where), path, "schedule")
    for name in _PLAIN_FLAGS:
        if name in given:
            merged[name] = given[name]
    if "bootstrap_servers" in given:
        merged["system"] = given.get("system", "external")
        servers = {"bootstrap_servers": given["bootstrap_servers"]}
        merged["external"] = {**_table(merged, "external", where), **servers}
    load: dict[str, Any] = {n: given[n] for n in _LOAD_FLAGS if n in given}
    if load:
        merged["workload"] = _with_load(merged, load, where)
    nemesis = _table(merged, "nemesis", where)
    if "faults" in given:
        mix = _table(nemesis, "mix", f"{where}: nemesis")
        tuned = {n: mixed for n, mixed in mix.items() if n in given["faults"]}
        nemesis |= {"faults": given["faults"], "events": [], "mix": tuned}
    if "nemesis" in given:
        nemesis["mode"] = given["nemesis"]
    plan = Plan.from_json({**merged, "nemesis": nemesis}, where)
    if "acks" in given:
        kept = [topic for topic in plan.topics if acks_name(topic.acks) in given["acks"]]
        if not kept:
            has = ", ".join(acks_name(topic.acks) for topic in plan.topics)
            raise PlanError(f"{where}: no topic has the acks asked for; its topics have {has}")
        plan = with_topics(plan, kept)
    return with_expectations(plan, given.get("expect", ()))


def with_topics(plan: Plan, topics: Sequence[Topic]) -> Plan:
    """Return the plan with only these topics, and without expectations of acks modes that no topic
    has."""
    modes = {None, *(topic.acks for topic in topics)}
    about = tuple(each for each in plan.expect if expectations.parse(each).acks in modes)
    return plan.model_copy(update={"topics": tuple(topics), "expect": about})


def with_expectations(plan: Plan, more: Sequence[str]) -> Plan:
    """Return the plan with more expectations. Raises PlanError."""
    try:
        added = [each.text for each in expectations.read(list(more))]
    except BadExpectation as error:
        raise PlanError(f"--expect {error}") from error
    return plan.model_copy(update={"expect": tuple(dict.fromkeys((*plan.expect, *added)))})


def _without_faults(raw: Mapping[str, Any], where: str) -> dict[str, Any]:
    return {**raw, "nemesis": {**_table(raw, "nemesis", where), "faults": [], "mix": {}}}


def stored_plan(run_dir: Path) -> Plan:
    """Return the plan of a stored run. Raises OSError, ValueError, PlanError."""
    try:
        raw = json.loads((run_dir / "plan.json").read_text())
    except RecursionError as error:
        raise PlanError(f"{run_dir}/plan.json: {TOO_DEEP}") from error
    return Plan.from_json(raw, str(run_dir))


def acks_name(acks: int) -> str:
    """Return an acks setting as people write it: 0, 1 or all."""
    return "all" if acks == -1 else str(acks)
