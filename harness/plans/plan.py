"""The plan of a run: what is deployed, what clients do, what is broken, what is promised.

A plan is frozen, validated data: from TOML, from flags on top of it, and from the plan.json of an
earlier run. Here each value is checked by itself; `harness.run.prepare` checks them against
each other and against what the target can do, and fixes the schedule of faults. Everything wrong is
a PlanError of one paragraph: what, where, and what to do about it. The plan knows nothing of how it
is carried out.
"""

import json
import re
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
from harness.plans.errors import TOO_DEEP
from harness.plans.errors import PlanError as PlanError
from harness.plans.properties import Value
from nemesis.base import NemesisError
from nemesis.schedule import Event, Written, read

FIRST_LIGHT = "first-light"
"""The packaged plan of `highwater run` without a plan."""


LONGEST_S: Final = 366 * 86_400
"""No length of time in a plan is longer."""
LONGEST_MS: Final = LONGEST_S * 1000
GREATEST: Final = (1 << 31) - 1
"""Of counts: what clients and brokers hold in 32 bits."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


def _acks(value: object) -> object:
    return -1 if value == "all" else value


Acks = Annotated[Literal[0, 1, -1], BeforeValidator(_acks)]
"""0, 1, or -1, which may be written `all`."""


class Topic(_Frozen):
    """One topic, and how its producers ask for acknowledgement."""

    name: str = Field(pattern=r"^[A-Za-z0-9._-]{1,249}$")
    acks: Acks
    partitions: int = Field(default=3, ge=1, le=1000)
    replication_factor: int = Field(default=3, ge=1, le=1000)
    min_insync_replicas: int = Field(default=2, ge=1, le=1000)
    idempotence: bool = False
    configs: dict[str, str] = {}
    """Further topic configs, by Kafka's names."""


ClientName = Literal["librdkafka", "own", "kafka-python", "aiokafka"]
"""Whose producers and consumers; `own` is our asyncio client."""


class Workload(_Frozen):
    """What the clients of each topic do."""

    client: ClientName = "librdkafka"
    producers: int = Field(default=2, ge=1, le=100)
    """Per topic."""
    consumers: int = Field(default=1, ge=0, le=100)
    """Per topic; each reads all its partitions."""
    rate_per_s: float = Field(default=200.0, ge=0, le=10_000_000)
    """Sends per second and producer; 0 is as fast as it can."""
    value_bytes: int = Field(default=128, ge=64, le=1_000_000)
    max_in_flight: int = Field(default=1000, ge=1, le=GREATEST)
    """Sends of one producer that may wait for their outcome."""
    linger_ms: float = Field(default=2.0, ge=0, le=900_000)
    message_timeout_ms: int = Field(default=10_000, ge=1, le=GREATEST)
    """After this a send without an answer is given up, its outcome unknown."""
    insists: bool = False
    """Of our own client: what may be there is sent again once a broker has refused its sequence, as
    other clients do, instead of being given up."""


_Length = Annotated[int, Field(ge=1, le=LONGEST_MS)]
Range = tuple[_Length, _Length]
"""Least and greatest."""


Parameter = str | tuple[int, int] | tuple[float, float] | tuple[str, ...]
"""A fault's parameter: as it is, [least, greatest], or one of several texts."""


def _as_text(value: object) -> object:
    """A single number is a parameter as it is."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return value


class Mixed(_Frozen):
    """What a random mix does with one fault; nothing is what it does with all."""

    weight: int = Field(default=1, ge=0, le=100)
    """How often it comes in the time in which a fault of weight 1 comes once."""
    targets: tuple[str, ...] = ()
    duration_ms: Range | None = None
    params: dict[str, Annotated[Parameter, BeforeValidator(_as_text)]] = {}


class Quiet(_Frozen):
    """Time without faults, in which the cluster is to recover, every so often."""

    every_ms: int = Field(ge=1, le=LONGEST_MS)
    """How long faults go on before each quiet time."""
    for_ms: int = Field(ge=1, le=LONGEST_MS)


class Nemesis(_Frozen):
    """What is broken: a list of events, or a random mix by the plan's seed."""

    events: tuple[Event, ...] = ()
    faults: tuple[str, ...] = ()
    """Names, or patterns such as `partition.*` and `*`."""
    mix: dict[str, Mixed] = {}
    """By fault; those that are not in `faults` take part too."""
    targets: tuple[str, ...] = ("one", "leader", "controller")
    interval_ms: Range = (2_000, 6_000)
    """From the moment when there is room for a fault until one comes."""
    rate_per_min: float | None = Field(default=None, gt=0, le=6_000)
    """Faults or bursts that begin in a minute, in place of the interval."""
    duration_ms: Range = (2_000, 8_000)
    overlap: int = Field(default=1, ge=1, le=15)
    """So many faults may be in force at once."""
    burst: Range = (1, 1)
    """So many come together."""
    quiet: Quiet | None = None
    majority: bool = False
    """Faults that overlap may take a majority of the nodes together."""
    mode: Literal["strict", "auto"] = "strict"
    """What becomes of faults that the target cannot inject: refused, or left out and noted."""


def _expected(value: object) -> object:
    return tuple(each.text for each in expectations.read(value))


Expect = Annotated[tuple[str, ...], BeforeValidator(_expected)]
"""What the user expects beside the contract, as `checkers.expectations` writes it."""


_Delay = Annotated[float, Field(ge=0, le=3_600_000)]
Span = tuple[_Delay, _Delay]
"""Least and greatest, in milliseconds."""


class Simulated(_Frozen):
    """What simulated networks and disks are like when nothing is wrong."""

    latency_ms: Span = (0.1, 0.6)
    """Each link draws from here how long a packet takes at least."""
    jitter_ms: Span = (0.02, 0.4)
    """Likewise, how much may come on top."""
    sync_ms: Span = (0.2, 2.0)
    """How long an fsync takes, beside what it has to write."""

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        for name in ("latency_ms", "jitter_ms", "sync_ms"):
            least, most = getattr(self, name)
            if least > most:
                raise ValueError(
                    f"{name} is [least, greatest], and {least:g} is more than {most:g}"
                )
        return self


_TOPICS = (
    Topic(name="acks-0", acks=0),
    Topic(name="acks-1", acks=1),
    Topic(name="acks-all", acks=-1, idempotence=True),
)


System = Literal["nodes", "kafka", "external"]
"""The built-in broker, Apache Kafka, or a cluster that somebody else runs."""


class External(_Frozen):
    """The cluster of system external, and how clients get in."""

    bootstrap_servers: str = Field(min_length=1)
    properties: dict[str, str] = {}
    """Client properties by librdkafka's names; `env:NAME` is what that variable holds."""

    def resolved(self) -> dict[str, str]:
        """The properties with what the environment holds. Raises PlanError."""
        found = properties.resolved(self.properties, "external.properties")
        return {name: str(value) for name, value in found.items()}

    @field_serializer("properties", when_used="json")
    def _without_secrets(self, found: dict[str, str]) -> dict[str, Value]:
        return properties.without_secrets(found)


class Plan(_Frozen):
    """Everything that decides a run, together with the commit."""

    name: str = Field(default=FIRST_LIGHT, pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")
    seed: int = Field(ge=0, le=(1 << 63) - 1)
    target: Literal["local", "docker", "ssh", "vagrant", "sim"] = "local"
    inventory: str | None = None
    """Of target ssh: the file that says which machines there are."""
    system: System = "nodes"
    kafka_home: str | None = None
    """Of system kafka: an unpacked distribution; none is what `make kafka` has fetched."""
    external: External | None = None
    """Of system external."""
    nodes: int = Field(default=3, ge=1, le=15)
    broker_module: str = Field(default="nodes", pattern=r"^[A-Za-z_][\w.]*$")
    """The module that `python -m` starts on each node."""
    broker: dict[str, Value] = {}
    """Broker properties on top of the system's own, by Kafka's names; `env:NAME` is what that
    environment variable holds."""
    warmup_s: float = Field(default=5.0, ge=0, le=LONGEST_S)
    duration_s: float = Field(default=60.0, ge=0.001, le=LONGEST_S)
    """Length of the chaos phase."""
    start_timeout_s: float = Field(default=30.0, gt=0, le=LONGEST_S)
    """How long the cluster may take to be whole, and then every topic to its first acknowledgement;
    longer with systems that are known to be slow."""
    settle_timeout_s: float = Field(default=30.0, gt=0, le=LONGEST_S)
    """How long after the last heal every replica may take to be in sync again."""
    rotate_s: float | None = Field(default=None, ge=0.1, le=LONGEST_S)
    """Of a long run the history is sealed in segments of this length while it goes on."""
    topics: tuple[Topic, ...] = Field(default=_TOPICS, min_length=1)
    workload: Workload = Workload()
    nemesis: Nemesis = Nemesis()
    expect: Expect = ()
    """A table (`lost.acks-all = 0`) or a list of texts; it does not change what the run does."""
    simulated: Simulated = Simulated()
    """Of target sim."""

    @field_validator("broker")
    @classmethod
    def _check_broker(cls, broker: dict[str, Value]) -> dict[str, Value]:
        properties.check_broker(broker)
        return broker

    @field_serializer("broker", when_used="json")
    def _without_secrets(self, broker: dict[str, Value]) -> dict[str, Value]:
        return properties.without_secrets(broker)

    def resolved_broker(self) -> dict[str, Value]:
        """The broker properties with what the environment holds. Raises PlanError."""
        return properties.resolved(self.broker, "broker")

    @model_validator(mode="before")
    @classmethod
    def _bounds_are_expectations(cls, raw: object) -> object:
        """As plans wrote them before there were expectations."""
        if not isinstance(raw, dict) or "bounds" not in raw:
            return raw
        rest = {name: value for name, value in raw.items() if name != "bounds"}
        return {**rest, "expect": [each.text for each in expectations.of_plan(raw)]}

    def to_json(self) -> dict[str, Any]:
        """The plan as JSON-able data, which `from_json` reads back, less the secrets in it."""
        return self.model_dump(mode="json")

    @classmethod
    def from_json(cls, raw: Mapping[str, Any], where: str) -> Self:
        """Validate raw data. Raises PlanError, which starts with `where`."""
        try:
            return cls.model_validate(raw)
        except ValidationError as error:
            raise PlanError(f"{where}: {explained(error, 'the plan')}") from error


def packaged() -> tuple[str, ...]:
    """The names of the plans and scenarios that come with the harness."""
    return tuple(sorted(_shipped()))


def _shipped() -> dict[str, Path]:
    plans = resources.files("harness.plans").joinpath("packaged")
    found = [*plans.iterdir(), *plans.joinpath("scenarios").iterdir()]
    return {
        each.name.removesuffix(".toml"): Path(str(each))
        for each in found
        if each.name.endswith(".toml")
    }


def load(source: str | None = None) -> dict[str, Any]:
    """The raw data of a plan: a TOML file, a packaged plan's name, or first light for None.

    A `schedule` of its [nemesis] names a file, from the plan's own directory on, whose events take
    its place. Raises PlanError when one cannot be read. The values are validated by `build`.
    """
    if source is None:
        source = FIRST_LIGHT
    path = _shipped().get(source, Path(source))
    where = f"plan {source}"
    try:
        raw = tomllib.loads(path.read_text())
    except tomllib.TOMLDecodeError as error:
        raise PlanError(f"{where}: is no valid TOML: {error}") from error
    except RecursionError as error:
        raise PlanError(f"{where}: {TOO_DEEP}") from error
    except (OSError, ValueError) as error:  # a name with a null byte is a ValueError
        raise PlanError(
            f"{where}: cannot be read ({_reason(error)}); give a TOML file or a packaged "
            f"plan: {', '.join(packaged())}"
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
    """The plan with the events of a file, and with its end and seed where it has them."""
    try:
        written: Written = read(path.read_bytes())
    except (OSError, ValueError, NemesisError) as error:
        why = error if isinstance(error, NemesisError) else f"cannot be read ({_reason(error)})"
        raise PlanError(f"{where}: {path}: {why}") from error
    events = [event.model_dump(exclude_defaults=True) for event in written.events]
    merged = {**raw, "nemesis": {**_table(raw, "nemesis", where), "events": events}}
    if written.end_ms is not None:
        merged["duration_s"] = written.end_ms / 1000
    if written.seed is not None:
        merged["seed"] = written.seed
    return merged


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "it is no text"
    return getattr(error, "strerror", None) or str(error)


def _table(raw: Mapping[str, Any], name: str, where: str) -> dict[str, Any]:
    """A table of the raw data, empty where it has none. Raises PlanError for what is no table."""
    found = raw.get(name, {})
    if not isinstance(found, dict):
        raise PlanError(f"{where}: {name}: is a table ([{name}]), not {str(found)[:80]}")
    return dict(found)


_PLAIN_FLAGS: Final = (
    "seed", "duration_s", "rotate_s", "nodes", "target", "inventory", "system", "kafka_home",
    "broker_module", "name",
)  # fmt: skip


def build(raw: Mapping[str, Any], *, where: str, flags: Mapping[str, Any] | None = None) -> Plan:
    """A plan from raw data with flags on top. Raises PlanError.

    Flags: seed, duration_s, rotate_s, nodes, acks (only the topics of these modes), client,
    bootstrap_servers (of an external cluster), rate_per_s, faults (a random mix of these in place
    of whatever was planned), schedule (a file of events, likewise), nemesis (the mode), target,
    inventory, system, kafka_home, broker_module, name, expect (beside what the plan expects); those
    that are None say nothing. A plan without a seed gets a random one.
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
    if workload := {name: given[name] for name in ("client", "rate_per_s") if name in given}:
        merged["workload"] = {**_table(merged, "workload", where), **workload}
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
        plan = narrowed(plan, kept)
    return expecting(plan, given.get("expect", ()))


def narrowed(plan: Plan, topics: Sequence[Topic]) -> Plan:
    """The plan with these topics, and without what it expects of acks modes that they lack."""
    modes = {None, *(topic.acks for topic in topics)}
    about = tuple(each for each in plan.expect if expectations.parse(each).acks in modes)
    return plan.model_copy(update={"topics": tuple(topics), "expect": about})


def expecting(plan: Plan, more: Sequence[str]) -> Plan:
    """The plan with more expectations. Raises PlanError."""
    try:
        added = [each.text for each in expectations.read(list(more))]
    except BadExpectation as error:
        raise PlanError(f"--expect {error}") from error
    return plan.model_copy(update={"expect": tuple(dict.fromkeys((*plan.expect, *added)))})


def _without_faults(raw: Mapping[str, Any], where: str) -> dict[str, Any]:
    return {**raw, "nemesis": {**_table(raw, "nemesis", where), "faults": [], "mix": {}}}


def stored(run_dir: Path) -> Plan:
    """The plan of a stored run. Raises OSError, ValueError, PlanError."""
    try:
        raw = json.loads((run_dir / "plan.json").read_text())
    except RecursionError as error:
        raise PlanError(f"{run_dir}/plan.json: {TOO_DEEP}") from error
    return Plan.from_json(raw, str(run_dir))


_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}


def seconds(text: str) -> float:
    """A length of time as people write it: `90`, `90s`, `10m`, `12h`, `7d`. Raises PlanError."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)?", text.strip())
    if found is None:
        raise PlanError(f"{text!r} is no length of time; write seconds, or 10m, 12h, 7d")
    length_s = float(found[1]) * _UNITS[found[2] or "s"]
    if length_s > LONGEST_S:
        raise PlanError(f"{text!r} is too long; no length of time is more than 366d")
    return length_s


def acks_name(acks: int) -> str:
    """As people write it: 0, 1, all."""
    return "all" if acks == -1 else str(acks)


def explained(error: ValidationError, whole: str) -> str:
    """The first thing that pydantic found, in a sentence; `whole` is what was validated."""
    problems = error.errors(include_url=False)
    first = problems[0]
    place = ".".join(map(str, first["loc"])) or whole
    more = f" (and {len(problems) - 1} more problems)" if len(problems) > 1 else ""
    match first["type"]:
        case "extra_forbidden":
            return f"{place}: there is no such key; remove it or correct its spelling{more}"
        case "missing":
            return f"{place}: is missing{more}"
        case "value_error":
            return f"{place}: {first['ctx']['error']}{more}"
        case _:
            given = json.dumps(first["input"], default=str)
            return f"{place}: {first['msg'][0].lower()}{first['msg'][1:]}, not {given[:80]}{more}"
