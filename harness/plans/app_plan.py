"""The form in which people describe a test of their own program, APP.toml, and its plan.

The form has the tables [app], [input], [output], [claims], [chaos] and [cluster]. Its plan is an
ordinary one: an input topic with producers of text, and a workload of kind `app`. Pure, but for
`load`, which reads the file.
"""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from harness.plans.app_workload import DEFAULT_GROUP, Image, Output, check_program
from harness.plans.errors import PlanError, unreadable
from harness.plans.plan import Nemesis
from harness.plans.plugged import SYSTEMS, TARGETS, OneOf
from harness.plans.problems import describe_problems

FAULTS_OF_PROGRAMS: Final = ("app.kill", "app.pause")
"""The faults of a form that names none, with a cluster that somebody else runs."""
FAULTS: Final = ("kill", "pause", "partition.isolate-leader", *FAULTS_OF_PROGRAMS)
"""The faults of a form that names none."""
SQLITE: Final = "sqlite:///"
MIX: Final[Mapping[str, Any]] = {"interval_ms": (2_000, 5_000), "duration_ms": (1_000, 6_000)}


class _Frozen(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True
    )


class App(_Frozen):
    """[app]: the program."""

    command: tuple[str, ...] = ()
    """The program and its arguments."""
    image: Image = None
    """An OCI image: each instance is a container, and `command` its arguments."""
    directory: str = "."
    """Its working directory; a path begins at the form's own directory. A container has it at the
    same path."""
    environment: dict[str, str] = {}
    """Variables of its environment."""
    instances: int = Field(default=1, ge=1, le=100)
    """How many processes of it run at a time."""
    group: str = DEFAULT_GROUP
    """The consumer group that it is told (HIGHWATER_GROUP)."""
    stop_s: float = Field(default=10.0, gt=0)
    """How long it may take to end after SIGTERM, s."""

    @model_validator(mode="after")
    def _is_startable(self) -> Self:
        check_program(self.command, self.image)
        return self


class Input(_Frozen):
    """[input]: the topic that the program reads."""

    topic: str = "input"
    """The topic's name."""
    partitions: int = Field(default=4, ge=1, le=1_000)
    """Number of partitions."""
    rate: float = Field(default=100.0, gt=0, le=1_000_000)
    """Records per second."""
    value_bytes: int = Field(default=200, ge=128, le=1_000_000)
    """Size of a record's value, bytes."""


class Claims(_Frozen):
    """[claims]: what the program promises."""

    delivery: Literal["at-most-once", "at-least-once", "exactly-once"]
    """How often each input has an effect on the output."""
    ordered_by: Literal["key"] | None = None
    """Inputs of one key come out in their order."""
    lag_s: float = Field(default=30.0, gt=0)
    """The output of all inputs is there so long after the faults are healed and the last input is
    sent, s."""


class Cluster(_Frozen):
    """[cluster]: the cluster that the program uses."""

    system: Annotated[str, OneOf(("nodes", "kafka", "external"), SYSTEMS)] = "nodes"
    """The built-in broker (`nodes`), Apache Kafka (`kafka`), or a cluster that already runs
    (`external`)."""
    bootstrap_servers: str | None = None
    """For system external: addresses of brokers, host:port, with commas."""
    properties: dict[str, str] = {}
    """For system external: client properties by librdkafka's names. `env:NAME` means the value of
    that environment variable."""
    kafka_home: str | None = None
    """For system kafka: the directory of an unpacked distribution."""
    nodes: int = Field(default=3, ge=1, le=15)
    """Number of nodes."""
    target: Annotated[str, OneOf(("local", "docker", "ssh", "vagrant"), TARGETS)] = "local"
    """Where the nodes live."""
    control_plane: Literal["quorum", "zookeeper"] = "quorum"
    """Who elects leaders: the metadata quorum of the nodes, or a controller beside ZooKeeper, on
    target local."""
    zookeepers: int = Field(default=3, ge=1, le=9)
    """For control_plane zookeeper: number of ZooKeeper nodes beside the `nodes`."""
    inventory: str | None = None
    """For target ssh: the file that lists the machines."""
    broker: dict[str, bool | int | float | str] = {}
    """Broker properties, by Kafka's names."""


class Form(_Frozen):
    """The whole form."""

    name: str | None = None
    """The test's name; runs are stored under it. Default: the name of the file."""
    seed: int | None = Field(default=None, ge=0)
    """Everything random is derived from it. Default: a new one each time."""
    app: App
    """The program."""
    input: Input = Input()
    """The topic that it reads."""
    output: Output
    """Where it puts its output."""
    claims: Claims
    """What it promises."""
    chaos: dict[str, Any] = {}
    """`seconds`: how long faults come, by default 60; and the keys of a plan's [nemesis]."""
    cluster: Cluster = Cluster()
    """The cluster that it uses."""


def load(path: Path) -> dict[str, Any]:
    """Return the raw data of the plan of a form. Raises PlanError."""
    where = f"{path}"
    try:
        raw = tomllib.loads(path.read_text())
    except tomllib.TOMLDecodeError as error:
        raise PlanError(f"{where}: is no valid TOML: {error}") from error
    except (OSError, ValueError) as error:
        raise PlanError(
            f"{where}: cannot be read ({unreadable(error)}); give the TOML file that describes "
            "your program, as docs/test-app.md shows"
        ) from error
    return plan_of(raw, path.resolve(), where)


def plan_of(raw: Mapping[str, Any], path: Path, where: str) -> dict[str, Any]:
    """Return the raw data of the plan of a form at `path`. Raises a PlanError that starts with
    `where`."""
    try:
        form = Form.model_validate(raw)
    except ValidationError as error:
        raise PlanError(f"{where}: {describe_problems(error, Form, 'the form')}") from error
    chaos = dict(form.chaos)
    seconds = chaos.pop("seconds", 60)
    if unknown := sorted(chaos.keys() - set(Nemesis.model_fields)):
        known = ", ".join(("seconds", *Nemesis.model_fields))
        raise PlanError(f"{where}: chaos.{unknown[0]}: there is no such key (keys here: {known})")
    directory = (path.parent / form.app.directory).resolve()
    made: dict[str, Any] = {
        "name": form.name or _name_of(path),
        "duration_s": seconds,
        "warmup_s": 5,
        **_cluster(form.cluster, where),
        "topics": [_topic(form)],
        "workload": [_producers(form), _program(form, directory)],
        "nemesis": _nemesis(form, chaos),
    }
    if form.seed is not None:
        made["seed"] = form.seed
    if form.cluster.inventory is not None:
        made["inventory"] = str((path.parent / form.cluster.inventory).resolve())
    return made


def _cluster(cluster: Cluster, where: str) -> dict[str, Any]:
    made = cluster.model_dump(exclude_defaults=True)
    servers, access = made.pop("bootstrap_servers", None), made.pop("properties", {})
    if (cluster.system == "external") != (servers is not None):
        raise PlanError(
            f'{where}: cluster: system = "external" and bootstrap_servers go together: give both, '
            "or neither"
        )
    if servers is None and access:
        raise PlanError(
            f'{where}: cluster.properties are for system = "external"; highwater knows how to '
            "connect to a cluster that it starts"
        )
    if servers is not None:
        made["external"] = {"bootstrap_servers": servers, "properties": access}
    return made


def _name_of(path: Path) -> str:
    """Return the name of the form's file as a plan's name."""
    name = re.sub(r"[^a-z0-9._-]", "-", path.stem.lower())
    return re.sub(r"^[^a-z0-9]+", "", name)[:64] or "app"


def _replicas(form: Form) -> int:
    return min(3, form.cluster.nodes)


def _topic(form: Form) -> dict[str, Any]:
    return {
        "name": form.input.topic,
        "partitions": form.input.partitions,
        "replication_factor": _replicas(form),
        "min_insync_replicas": max(1, _replicas(form) - 1),
        "acks": "all",
        "idempotence": True,
    }


def _producers(form: Form) -> dict[str, Any]:
    return {
        "kind": "produce",
        "payload": "text",
        "producers": 1,
        "consumers": 0,
        "rate_per_s": form.input.rate,
        "value_bytes": form.input.value_bytes,
        "message_timeout_ms": 30_000,
    }


def _program(form: Form, directory: Path) -> dict[str, Any]:
    sink = form.output.model_dump(exclude_defaults=True)
    if form.output.topic is not None:
        sink["replication_factor"] = _replicas(form)
    if form.output.file is not None:
        sink["file"] = str(directory / form.output.file)
    if form.output.sql is not None:
        sink["sql"] = _database(form.output.sql, directory)
    return {
        "kind": "app",
        "group": form.app.group,
        "command": form.app.command,
        **({} if form.app.image is None else {"image": form.app.image}),
        "directory": str(directory),
        "environment": form.app.environment,
        "instances": form.app.instances,
        "input": form.input.topic,
        "sink": sink,
        "processing": form.claims.delivery,
        "ordered_by": form.claims.ordered_by,
        "lag_s": form.claims.lag_s,
        "stop_s": form.app.stop_s,
    }


def _database(url: str, directory: Path) -> str:
    """Return the URL with the path of an SQLite file, which begins at the program's directory."""
    path = url.removeprefix(SQLITE)
    return f"{SQLITE}{directory / path}" if path != url and path else url


def _nemesis(form: Form, chaos: Mapping[str, Any]) -> dict[str, Any]:
    """Return the faults. A fault of the program hits each instance in turn, unless the form says
    otherwise."""
    if "events" in chaos:
        return dict(chaos)
    usual = FAULTS_OF_PROGRAMS if form.cluster.system == "external" else FAULTS
    named = list(chaos.get("faults", () if "mix" in chaos else usual))
    mix: dict[str, Any] = dict(chaos.get("mix", {}))
    numbers = [str(number) for number in range(1, form.app.instances + 1)]
    for name in (*FAULTS_OF_PROGRAMS, "app.clock"):
        if name in named or "app.*" in named or "*" in named or name in mix:
            mix[name] = {"params": {"instance": numbers}, **mix.get(name, {})}
    return {**MIX, **chaos, "faults": named, "mix": mix}
