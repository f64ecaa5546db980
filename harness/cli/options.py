"""The options and arguments that several commands have, each declared once with its help text."""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from harness.admin.errors import BadRequest

DEFAULT_STORE: Final = Path("store")


class EngineName(StrEnum):
    """The engines that judge histories."""

    DUCKDB = "duckdb"
    SPARK = "spark"


class AcksMode(StrEnum):
    """Kafka's acks modes, as people write them."""

    none = "0"
    leader = "1"
    all = "all"


def zoo_module(name: str | None) -> str | None:
    """Return the full module name of a broken broker of the zoo; any other name as it is.

    A module of the same name in the working directory goes first: it may be a changed copy.
    """
    if name is None or not name.isidentifier():
        return name
    from harness.zoo import mutants

    if name not in mutants.NAMES or PathFinder.find_spec(name, [str(Path.cwd())]) is not None:
        return name
    return f"{mutants.__name__}.{name}"


def comma_separated(text: str) -> list[str]:
    """Return the parts of a comma-separated text without blanks around them; empty parts are
    left out."""
    return [part.strip() for part in text.split(",") if part.strip()]


def known_words(option: str, text: str, known: Sequence[str]) -> list[str]:
    """Return the words of a comma-separated text as `known` writes them, whatever their case.

    Raises BadRequest about a word that is none of them.
    """
    from harness.plans.problems import nearest

    by_lower_case = {each.lower(): each for each in known}
    words = comma_separated(text)
    for word in words:
        if word.lower() not in by_lower_case:
            raise BadRequest(
                f"{option}: {word!r} is none of {', '.join(known)}"
                f"{nearest(word.lower(), by_lower_case)}"
            )
    return [by_lower_case[word.lower()] for word in words]


def broker_numbers(option: str, text: str) -> list[int]:
    """Return the broker numbers of a comma-separated text, each once. Raises BadRequest."""
    parts = comma_separated(text)
    if bad := [part for part in parts if not part.isdigit()]:
        raise BadRequest(f"{option}: {bad[0]!r} is no broker number; write 1,2,3")
    if len(set(parts)) != len(parts):
        raise BadRequest(f"{option} {text}: a broker is named twice")
    return [int(part) for part in parts]


def key_values(option: str, texts: Iterable[str] | None) -> dict[str, str]:
    """Return what a repeated `--option KEY=VALUE` sets. Raises BadRequest."""
    read = {}
    for text in texts or ():
        key, separator, value = text.partition("=")
        if not separator or not key.strip():
            raise BadRequest(f"{option} {text!r} is no KEY=VALUE")
        read[key.strip()] = value.strip()
    return read


def command_group(
    help_text: str | None = None, *, completion: bool = False, **settings: Any
) -> typer.Typer:
    """Return an application or a group of commands with the look of all of them.

    `completion` adds the options that install shell completion.

    Help is plain text without boxes: it leaves more room for the texts, and does not load rich.
    """
    return typer.Typer(
        help=help_text,
        no_args_is_help=True,
        rich_markup_mode=None,
        add_completion=completion,
        **settings,
    )


def plans_beginning_with(incomplete: str) -> list[str]:
    """Complete the name of a packaged plan."""
    from harness.plans.plan import packaged

    return [name for name in packaged() if name.startswith(incomplete)]


def faults_beginning_with(incomplete: str) -> list[str]:
    """Complete the name of a fault."""
    from nemesis.faults.catalogue import FAULTS

    return [name for name in FAULTS if name.startswith(incomplete)]


Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Rotate = Annotated[
    str | None,
    typer.Option(
        help="Write the history in segments of this length (`analyze --follow` needs it): 30s, 1m."
    ),
]
Store = Annotated[Path, typer.Option(help="The folder with the run directories.")]
StoredRun = Annotated[
    Path, typer.Argument(help="A run directory; `store/latest` is the latest run.")
]
Report = Annotated[bool, typer.Option(help="Write report.html into the run directory.")]
Engine = Annotated[EngineName, typer.Option(help="The engine that judges the history.")]
Jobs = Annotated[
    int | None, typer.Option(min=1, help="Number of processes. Default: one per core.")
]

PlanName = Annotated[
    str | None,
    typer.Argument(
        help="A TOML file or the name of a packaged plan (`highwater plans` lists them).",
        autocompletion=plans_beginning_with,
    ),
]
Duration = Annotated[
    str | None,
    typer.Option(help="Length of the fault phase: 90, 90s, 10m, 12h, 7d. Default: the plan's."),
]
Nodes = Annotated[int | None, typer.Option(help="Number of nodes. Default: the plan's.")]
Acks = Annotated[
    list[AcksMode] | None,
    typer.Option(help="Use only the plan's topics with this acks mode. Repeatable."),
]
Rate = Annotated[
    float | None,
    typer.Option(
        help="Sends per second of each producer; 0 is as fast as possible. Default: the plan's."
    ),
]
Faults = Annotated[
    str | None,
    typer.Option(
        help="Inject a random mix of these faults instead of the plan's, separated by commas "
        "(`highwater faults` lists them)."
    ),
]
Expect = Annotated[
    list[str] | None,
    typer.Option(
        "--expect",
        help="A bound that the run must meet, such as `lost.acks-all = 0` or "
        "`publish_p99_ms <= 50`. Repeatable.",
    ),
]
BrokerModule = Annotated[
    str | None,
    typer.Option(
        callback=zoo_module,
        help="The Python module that each node of the built-in broker runs, or the name of a "
        "broken broker of `highwater zoo`. Default: nodes.",
    ),
]
ConfigOption = Annotated[
    list[str] | None, typer.Option("--config", help="A setting KEY=VALUE. Repeatable.")
]
DeleteConfig = Annotated[
    list[str] | None,
    typer.Option(help="A setting KEY to remove, so that its default holds again. Repeatable."),
]
Throttle = Annotated[
    int | None,
    typer.Option(
        min=1, help="Bytes/s that each broker may send and receive for the move. Default: no limit."
    ),
]
SystemName = Annotated[
    str | None,
    typer.Option(
        "--system",
        help="The system under test: nodes (the built-in broker), kafka (Apache Kafka) or external "
        "(a cluster that is already running).",
    ),
]
ControlPlane = Annotated[
    str | None,
    typer.Option(
        help="Who elects leaders and remembers topics: quorum (KRaft, on the nodes) or zookeeper "
        "(on further nodes). Default: the plan's, or quorum."
    ),
]
ZooKeepers = Annotated[
    int | None,
    typer.Option(
        min=1, max=9, help="Number of ZooKeeper nodes, for --control-plane zookeeper. Default: 3."
    ),
]
KafkaHome = Annotated[
    Path | None,
    typer.Option(
        help="Folder of an unpacked Kafka distribution, for --system kafka. Default: the one that "
        "`make kafka` downloaded (beside ZooKeeper, `make kafka-zookeeper`)."
    ),
]
