"""The plan of a run: what is deployed, what clients do, what is broken, what is promised.

A plan is frozen, validated data: from TOML, from flags on top of it, and from the plan.json of an
earlier run. Two steps, both before anything is started: reading (`load`, `override`) checks each
value; `prepare` checks the values against each other and against what the target can do, and
fixes the schedule of faults. Everything wrong is a PlanError of one paragraph: what, where, and
what to do about it. The plan knows nothing of how it is carried out.
"""

import json
import secrets
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from nemesis import conditions, targets
from nemesis.base import NemesisError
from nemesis.fault import Ability
from nemesis.faults import find
from nemesis.generator import Mix, generate
from nemesis.schedule import Event, Schedule, checked, scripted

ABILITIES: Mapping[str, frozenset[str]] = {
    "local": frozenset({Ability.SIGNALS, Ability.PACKET_DROPS}),
}
"""What each deployment target can do to its nodes, as long as the machine plays along."""

FIRST_LIGHT = "first-light"
"""The packaged plan of `highwater run` without a plan."""


class PlanError(Exception):
    """A plan that cannot be run; the message says what is wrong, where, and what to do."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


def _acks(value: object) -> object:
    return -1 if value == "all" else value


Acks = Annotated[Literal[0, 1, -1], BeforeValidator(_acks)]
"""0, 1, or -1, which may be written `all`."""


class Topic(_Frozen):
    """One topic, and how its producers ask for acknowledgement."""

    name: str = Field(pattern=r"^[A-Za-z0-9._-]{1,249}$")
    acks: Acks
    partitions: int = Field(default=3, ge=1, le=1000)
    replication_factor: int = Field(default=3, ge=1)
    min_insync_replicas: int = Field(default=2, ge=1)
    idempotence: bool = False
    configs: dict[str, str] = {}
    """Further topic configs, by Kafka's names."""


class Workload(_Frozen):
    """What the clients of each topic do."""

    producers: int = Field(default=2, ge=1, le=100)
    """Per topic."""
    consumers: int = Field(default=1, ge=0, le=100)
    """Per topic; each reads all its partitions."""
    rate_per_s: float = Field(default=200.0, ge=0)
    """Sends per second and producer; 0 is as fast as it can."""
    value_bytes: int = Field(default=128, ge=64, le=1_000_000)
    max_in_flight: int = Field(default=1000, ge=1)
    """Sends of one producer that may wait for their outcome."""
    linger_ms: float = Field(default=2.0, ge=0)
    message_timeout_ms: int = Field(default=10_000, ge=1)
    """After this a send without an answer is given up, its outcome unknown."""


Range = tuple[Annotated[int, Field(ge=1)], Annotated[int, Field(ge=1)]]
"""Least and greatest, in ms."""


class Nemesis(_Frozen):
    """What is broken: a list of events, or a random mix by the plan's seed."""

    events: tuple[Event, ...] = ()
    faults: tuple[str, ...] = ()
    targets: tuple[str, ...] = ("one", "leader", "controller")
    interval_ms: Range = (2_000, 6_000)
    duration_ms: Range = (2_000, 8_000)
    mode: Literal["strict", "auto"] = "strict"
    """What becomes of faults that the target cannot inject: refused, or left out and noted."""


class Bounds(_Frozen):
    """Promises about time; none is judged unless it is given."""

    unavailable_ms: int | None = Field(default=None, ge=1)
    """The longest time without an acknowledged send in a partition whose ISR is reachable."""


_TOPICS = (
    Topic(name="acks-0", acks=0),
    Topic(name="acks-1", acks=1),
    Topic(name="acks-all", acks=-1, idempotence=True),
)


class Plan(_Frozen):
    """Everything that decides a run, together with the commit."""

    name: str = Field(default=FIRST_LIGHT, pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")
    seed: int = Field(ge=0)
    target: Literal["local"] = "local"
    system: Literal["nodes"] = "nodes"
    nodes: int = Field(default=3, ge=1, le=15)
    broker_module: str = Field(default="nodes", pattern=r"^[A-Za-z_][\w.]*$")
    """The module that `python -m` starts on each node."""
    broker: dict[str, str | int | float | bool] = {}
    """Broker properties on top of the system's own, by Kafka's names."""
    warmup_s: float = Field(default=5.0, ge=0)
    duration_s: float = Field(default=60.0, gt=0)
    """Length of the chaos phase."""
    settle_timeout_s: float = Field(default=30.0, gt=0)
    """How long after the last heal every replica may take to be in sync again."""
    topics: tuple[Topic, ...] = Field(default=_TOPICS, min_length=1)
    workload: Workload = Workload()
    nemesis: Nemesis = Nemesis()
    bounds: Bounds = Bounds()

    def to_json(self) -> dict[str, Any]:
        """The plan as JSON-able data, which `from_json` reads back."""
        return self.model_dump(mode="json")

    @classmethod
    def from_json(cls, raw: Mapping[str, Any], where: str) -> Self:
        """Validate raw data. Raises PlanError, which starts with `where`."""
        try:
            return cls.model_validate(raw)
        except ValidationError as error:
            raise PlanError(f"{where}: {_explain(error)}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A plan that can be run, with its schedule."""

    plan: Plan
    schedule: Schedule
    notes: tuple[str, ...] = ()
    """What was left out, and why."""


def packaged() -> tuple[str, ...]:
    """The names of the plans that come with the harness."""
    found = resources.files("harness").joinpath("plans").iterdir()
    return tuple(sorted(f.name.removesuffix(".toml") for f in found if f.name.endswith(".toml")))


def load(source: str | None = None) -> dict[str, Any]:
    """The raw data of a plan: a TOML file, a packaged plan's name, or first light for None.

    Raises PlanError when it cannot be read. The values are validated by `build`.
    """
    if source is None:
        source = FIRST_LIGHT
    if source in packaged():
        text = resources.files("harness").joinpath("plans", f"{source}.toml").read_text()
    else:
        try:
            text = Path(source).read_text()
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is no text"
            raise PlanError(
                f"plan {source}: cannot be read ({reason}); give a TOML file or a packaged "
                f"plan: {', '.join(packaged())}"
            ) from error
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PlanError(f"plan {source}: is no valid TOML: {error}") from error


def build(raw: Mapping[str, Any], *, where: str, flags: Mapping[str, Any] | None = None) -> Plan:
    """A plan from raw data with flags on top. Raises PlanError.

    Flags: seed, duration_s, nodes, acks (only the topics of these modes), rate_per_s, faults (a
    random mix of these in place of whatever was planned), nemesis (the mode), target,
    broker_module, name; those that are None say nothing. A plan without a seed gets a random one.
    """
    given = {name: value for name, value in (flags or {}).items() if value is not None}
    merged = {"seed": secrets.randbits(32), **raw}
    for name in ("seed", "duration_s", "nodes", "target", "broker_module", "name"):
        if name in given:
            merged[name] = given[name]
    if "rate_per_s" in given:
        merged["workload"] = {**merged.get("workload", {}), "rate_per_s": given["rate_per_s"]}
    nemesis = dict(merged.get("nemesis", {}))
    if "faults" in given:
        nemesis |= {"faults": given["faults"], "events": []}
    if "nemesis" in given:
        nemesis["mode"] = given["nemesis"]
    plan = Plan.from_json({**merged, "nemesis": nemesis}, where)
    if "acks" in given:
        kept = [topic for topic in plan.topics if acks_name(topic.acks) in given["acks"]]
        if not kept:
            has = ", ".join(acks_name(topic.acks) for topic in plan.topics)
            raise PlanError(f"{where}: no topic has the acks asked for; its topics have {has}")
        plan = plan.model_copy(update={"topics": tuple(kept)})
    return plan


def prepare(
    plan: Plan, *, schedule: Schedule | None = None, abilities: Iterable[str] | None = None
) -> Prepared:
    """Check the plan as a whole and fix its schedule (or check the one to be replayed).

    `abilities` is what the target can do here; by default what it can do anywhere. Raises
    PlanError.
    """
    where = f"plan {plan.name}"
    _check_topics(plan, where)
    can = frozenset(ABILITIES[plan.target] if abilities is None else abilities)
    try:
        if schedule is not None:
            made, notes = checked(schedule), list[str]()
        else:
            made, notes = _schedule(plan, can, where)
        _check_targets(plan, made, where)
    except NemesisError as error:
        raise PlanError(f"{where}: nemesis: {error}") from error
    return Prepared(plan=plan, schedule=made, notes=tuple(notes))


def acks_name(acks: int) -> str:
    """As people write it: 0, 1, all."""
    return "all" if acks == -1 else str(acks)


def _check_topics(plan: Plan, where: str) -> None:
    names = [topic.name for topic in plan.topics]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise PlanError(f"{where}: topic {twice[0]} is there twice; give each its own name")
    for topic in plan.topics:
        here = f"{where}: topic {topic.name}"
        if topic.replication_factor > plan.nodes:
            raise PlanError(
                f"{here}: replication_factor {topic.replication_factor} is more than the "
                f"{plan.nodes} nodes; lower it, or raise nodes"
            )
        if topic.min_insync_replicas > topic.replication_factor:
            raise PlanError(
                f"{here}: min_insync_replicas {topic.min_insync_replicas} is more than "
                f"replication_factor {topic.replication_factor}, so that no acks=all send could "
                "ever be acknowledged; lower it"
            )
        if topic.idempotence and topic.acks != -1:
            raise PlanError(
                f'{here}: idempotence needs acks = "all", not {acks_name(topic.acks)}; '
                "switch one of them"
            )


def _schedule(plan: Plan, can: frozenset[str], where: str) -> tuple[Schedule, list[str]]:
    nemesis = plan.nemesis
    if nemesis.events and nemesis.faults:
        raise PlanError(
            f"{where}: nemesis has events and faults; keep the list of events or the random mix"
        )
    for low, high in (nemesis.interval_ms, nemesis.duration_ms):
        if low > high:
            raise PlanError(f"{where}: nemesis: the range {low}..{high} ms runs backwards")
    asked = nemesis.faults or [event.fault for event in nemesis.events]
    missing = {
        name: why for name in dict.fromkeys(asked) if (why := _missing(name, plan, can)) is not None
    }
    notes = [f"{name} was left out: {why}" for name, why in missing.items()]
    if missing and nemesis.mode == "strict":
        name, why = next(iter(missing.items()))
        raise PlanError(
            f"{where}: target {plan.target} cannot inject {name}: {why}; take it out of the plan, "
            "or leave it out with --nemesis auto; `highwater doctor` says what is missing here"
        )
    end_ms = round(plan.duration_s * 1000)
    if nemesis.events:
        events = [event for event in nemesis.events if event.fault not in missing]
        return scripted(events, seed=plan.seed, end_ms=end_ms), notes
    mix = Mix(
        faults=[name for name in nemesis.faults if name not in missing],
        targets=nemesis.targets,
        interval_ms=nemesis.interval_ms,
        duration_ms=nemesis.duration_ms,
    )
    return generate(mix, seed=plan.seed, end_ms=end_ms), notes


def _missing(name: str, plan: Plan, can: frozenset[str]) -> str | None:
    """Why the target cannot inject a fault, or None. Raises UnknownFault."""
    fault = find(name)
    if lacks := sorted(fault.needs - can):
        return f"it lacks {', '.join(lacks)}"
    if plan.nodes < fault.min_nodes:
        return f"the fault needs {fault.min_nodes} nodes and there are {plan.nodes}"
    return None


def _check_targets(plan: Plan, schedule: Schedule, where: str) -> None:
    partitions = {topic.name: topic.partitions for topic in plan.topics}
    for expression in plan.nemesis.targets:
        targets.parse(expression)
    for event in schedule.events:
        here = f"{where}: nemesis: event {event.id} ({event.fault})"
        target = targets.parse(event.targets)
        if target.node is not None and not 1 <= target.node <= plan.nodes:
            raise PlanError(f"{here}: there is no node {target.node}, only 1 to {plan.nodes}")
        if target.kind == "minority" and plan.nodes < 3:
            raise PlanError(f"{here}: {plan.nodes} nodes have no minority; aim at one")
        named: list[tuple[str, int]] = []
        if target.topic is not None:
            named.append((target.topic, target.partition))
        if event.until is not None:
            condition = conditions.parse(event.until)
            named.append((condition.topic, condition.partition))
        for topic, partition in named:
            if partition >= partitions.get(topic, 0):
                raise PlanError(
                    f"{here}: there is no partition {topic}/{partition} in the plan; its topics "
                    f"are {', '.join(f'{t} (0 to {n - 1})' for t, n in partitions.items())}"
                )


def _explain(error: ValidationError) -> str:
    """The first thing that pydantic found, in a sentence."""
    problems = error.errors(include_url=False)
    first = problems[0]
    place = ".".join(map(str, first["loc"])) or "the plan"
    more = f" (and {len(problems) - 1} more problems)" if len(problems) > 1 else ""
    match first["type"]:
        case "extra_forbidden":
            return f"{place}: there is no such key; remove it or correct its spelling{more}"
        case "missing":
            return f"{place}: is missing{more}"
        case _:
            given = json.dumps(first["input"], default=str)
            return f"{place}: {first['msg'][0].lower()}{first['msg'][1:]}, not {given[:80]}{more}"
