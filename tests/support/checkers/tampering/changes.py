"""Ways to tamper with the directory of a run: its files, its plan, its run.json.

A change that leaves VALID what was VALID says why that is right, or it is a hole.
"""

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.support.checkers.tampering.tables import table_changes

Change = Callable[[Path], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tampering:
    """harmless: why a run that was VALID may stay so; empty: it must not."""

    name: str
    change: Change
    harmless: str = ""


def _json(file: str, **fields: Any) -> Change:
    """Sets fields of a JSON file of the run; `...` takes one away."""

    def change(run: Path) -> None:
        path = run / file
        found = json.loads(path.read_text()) | fields
        kept = {name: value for name, value in found.items() if value is not ...}
        path.write_text(json.dumps(kept))

    return change


def _text(file: str, text: str) -> Change:
    def change(run: Path) -> None:
        (run / file).write_text(text)

    return change


def _topics(bend: Callable[[list[dict[str, Any]]], object]) -> Change:
    """Changes the plan's topics, and forgets by what the plan is known again."""

    def change(run: Path) -> None:
        path = run / "plan.json"
        plan = json.loads(path.read_text())
        bend(plan["topics"])
        path.write_text(json.dumps(plan))
        _json("run.json", plan_digest=...)(run)

    return change


def _plan(**fields: Any) -> Change:
    """Changes the plan, and forgets by what it is known again."""

    def change(run: Path) -> None:
        _json("plan.json", **fields)(run)
        _json("run.json", plan_digest=...)(run)

    return change


def _files(pattern: str, do: Callable[[Path], object]) -> Change:
    """Does something to the first file of a pattern."""

    def change(run: Path) -> None:
        do(sorted(run.glob(pattern))[0])

    return change


def _all_files(pattern: str, do: Callable[[Path], object]) -> Change:
    def change(run: Path) -> None:
        for path in sorted(run.glob(pattern)):
            do(path)

    return change


def _halve(path: Path) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])


def _flip(path: Path) -> None:
    whole = bytearray(path.read_bytes())
    for at in range(100, len(whole) - 100, max(1, len(whole) // 50)):
        whole[at] ^= 0xFF
    path.write_bytes(bytes(whole))


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _twice(path: Path) -> None:
    shutil.copy(path, path.with_name(f"again-{path.name}"))


SMALLER: Final = "what is asked of it is less than what was recorded"

FILES: Final = {
    "the monitor's": "history/monitor.parquet",
    "the final reads'": "history/final-reads.parquet",
    "a client's": "history/acks-all*.parquet",
    "the cluster's": "cluster.parquet",
    "the faults'": "faults.parquet",
    "the replicas'": "replicas.parquet",
    "the replica ends'": "replica_ends.parquet",
}
DAMAGE: Final[dict[str, Callable[[Path], object]]] = {
    "gone": Path.unlink,
    "cut in half": _halve,
    "flipped bits": _flip,
    "empty": _empty,
    "a folder": _folder,
}


def file_changes() -> Iterator[Tampering]:
    """Every file of the run damaged in every way."""
    for whose, pattern in FILES.items():
        for how, do in DAMAGE.items():
            yield Tampering(name=f"{whose} file: {how}", change=_files(pattern, do))
    yield Tampering(name="all of history gone", change=_all_files("history/*", Path.unlink))
    yield Tampering(name="history is no folder", change=lambda run: shutil.rmtree(run / "history"))
    yield Tampering(
        name="a client's file is there twice", change=_files(FILES["a client's"], _twice)
    )
    for name in ("plan.json", "run.json"):
        for how, do in DAMAGE.items():
            if how != "flipped bits":
                yield Tampering(name=f"{name}: {how}", change=_files(name, do))
        for text in ("{}", "null", "[]", '"text"', "{", "\0", "[" * 100_000):
            yield Tampering(name=f"{name}: {text[:6]!r}", change=_text(name, text))


def plan_changes() -> Iterator[Tampering]:
    """Another plan than the one that was run."""
    fields: dict[str, Any] = {
        "topics": ([], None, ..., {}, 7),
        "system": (None, "imported", "external", "", 7, ...),
    }
    for name, values in fields.items():
        for value in values:
            yield Tampering(name=f"plan: {name} is {value!r}", change=_plan(**{name: value}))
    yield Tampering(
        name="plan: system is of another package",
        change=_plan(system="another"),
        harmless="it needs all evidence",
    )
    bends: dict[str, Callable[[list[dict[str, Any]]], object]] = {
        "a topic dropped": lambda topics: topics.pop(),
        "a topic more": lambda topics: topics.append(topics[0] | {"name": "more"}),
        "a topic of another name": lambda topics: topics[0].update(name="other"),
        "a topic twice": lambda topics: topics.append(dict(topics[0])),
        "acks 0": lambda topics: [topic.update(acks=0) for topic in topics],
        "acks all": lambda topics: [topic.update(acks=-1) for topic in topics],
        "no acks": lambda topics: [topic.pop("acks") for topic in topics],
        "acks seven": lambda topics: topics[0].update(acks=7),
        "a partition more": lambda topics: topics[0].update(partitions=3),
        "a partition fewer": lambda topics: topics[0].update(partitions=1),
        "no partitions": lambda topics: topics[0].update(partitions=0),
        "a partition less than none": lambda topics: topics[0].update(partitions=-1),
        "half a partition": lambda topics: topics[0].update(partitions=0.5),
        "partitions are a text": lambda topics: topics[0].update(partitions="2"),
        "more partitions than can be": lambda topics: topics[0].update(partitions=2**62),
        "a replica more": lambda topics: topics[0].update(replication_factor=4),
        "names that are none": lambda topics: topics[0].update(name=None),
    }
    for name, bend in bends.items():
        yield Tampering(name=f"plan: {name}", change=_topics(bend))
    for name, change in {
        "a replica fewer": _json("plan.json", topics=...),
        "another seed": _json("plan.json", seed=99),
        "no nemesis": _json("plan.json", nemesis=...),
        "another broker": _json("plan.json", broker={"min.insync.replicas": "1"}),
    }.items():
        yield Tampering(name=f"plan beside its digest: {name}", change=change)
    workload = {"consumers": 9, "producers": 9, "message_timeout_ms": 5000, "max_in_flight": 5}
    yield Tampering(name="plan: more clients", change=_plan(workload=workload))
    yield Tampering(name="plan: a workload that is none", change=_plan(workload=7))


def run_changes() -> Iterator[Tampering]:
    """Another run.json than the harness wrote."""
    said: dict[str, tuple[Any, ...]] = {
        "finished": (None, ..., [], {}, 7, ["settle"], ["final reads", "collect"]),
        "settled": (False, "yes", 0),
        "final_reads_complete": (False, [], "yes"),
        "ended_ns": (0, 1),
        "plan_digest": ("", "0" * 64),
        "broken_invariant": ({"name": "n", "sentence": "s", "at_ns": 1},),
    }
    for name, values in said.items():
        for value in values:
            change = _json("run.json", **{name: value})
            yield Tampering(name=f"run.json: {name} is {value!r}", change=change)
    fewer = "what it says of is said, and asked for, elsewhere too"
    for name in ("settled", "final_reads_complete", "ended_ns", "plan_digest", "epoch_problems"):
        change = _json("run.json", **{name: ...})
        yield Tampering(name=f"run.json: no {name}", change=change, harmless=fewer)
    other = "it names the run, and is no evidence"
    for name in ("commit", "versions", "notes"):
        change = _json("run.json", **{name: ...})
        yield Tampering(name=f"run.json: no {name}", change=change, harmless=other)


def all_changes() -> list[Tampering]:
    """Every way, by a name of its own."""
    tables = [
        Tampering(name=name, change=change, harmless=harmless)
        for name, change, harmless in table_changes()
    ]
    return [*file_changes(), *plan_changes(), *run_changes(), *tables]
