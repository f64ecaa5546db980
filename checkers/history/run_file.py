"""The parts of a run.json that a verdict depends on.

run.json says how far the harness came, so that missing rows are not mistaken for events that never
happened. It is not evidence of the cluster's behaviour, except for the invariant that stopped a
simulated run. It is read leniently: a missing field, or one of a wrong type, counts as absent.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Broken:
    """An invariant of the nodes' own state that did not hold, where and when, in ns of the run."""

    name: str
    sentence: str
    at_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFile:
    """The fields of a run.json; None where it does not say.

    finished: the finished phases. epoch_problems: why the final leader epochs of partitions could
    not be read; None if that was not tried. refused: nodes that refused to run on files which a
    fault had damaged, with a sentence. deaths: nodes that died by themselves, with a sentence.
    broken: the invariant that stopped the run. settled, final_reads_complete: what the harness
    observed. ended_ns: when the last files were read. zookeeper_logs: the ZooKeeper nodes whose
    logs were read. zookeeper_lost: what ZooKeeper lost after it had acknowledged it, and servers
    that served other data than the leader's, a sentence each. zookeeper_discarded: what it
    discarded, and may have acknowledged. plan_digest: of the plan that was run; see
    `plan_file.digest`.
    """

    finished: tuple[str, ...] | None = None
    epoch_problems: tuple[str, ...] | None = None
    refused: tuple[tuple[int, str], ...] = ()
    deaths: tuple[tuple[int, str], ...] = ()
    broken: Broken | None = None
    settled: bool | None = None
    final_reads_complete: bool | None = None
    ended_ns: int | None = None
    zookeeper_logs: tuple[str, ...] | None = None
    zookeeper_lost: tuple[str, ...] = ()
    zookeeper_discarded: tuple[str, ...] = ()
    plan_digest: str | None = None

    @property
    def cut_short(self) -> bool:
        """Whether the run certainly ended before its leaders were asked for their epochs."""
        return self.finished is not None and self.epoch_problems is None

    @property
    def zookeeper_lost_or_discarded(self) -> bool:
        """Whether ZooKeeper took back, or may have taken back, what it had acknowledged."""
        return bool(self.zookeeper_lost or self.zookeeper_discarded)

    def why_epochs_unread(self, partition: str) -> str:
        """Why the final leader epochs of a partition (`topic-0`) are not recorded."""
        if self.cut_short:
            return "the run ended before"
        problems = self.epoch_problems or ()
        own = [each for each in problems if each.startswith((f"{partition}:", f"{partition} "))]
        return "; ".join(own or problems) or "they were not recorded"


NOTHING_SAID: Final = RunFile()


def read_run_file(run_dir: Path) -> RunFile:
    """Read the run.json in a run's directory; NOTHING_SAID if it cannot be read."""
    try:
        return parse_run_file((run_dir / "run.json").read_text())
    except (OSError, UnicodeDecodeError):
        return NOTHING_SAID


def parse_run_file(text: str) -> RunFile:
    """Parse the text of a run.json; NOTHING_SAID if it is not one."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return NOTHING_SAID
    if not isinstance(found, dict):
        return NOTHING_SAID
    return RunFile(
        finished=_texts(found, "finished"),
        epoch_problems=_texts(found, "epoch_problems"),
        refused=tuple(_told(found.get("refused"))),
        deaths=tuple(_told(found.get("deaths"))),
        broken=_broken(found.get("broken_invariant")),
        settled=_truth(found, "settled"),
        final_reads_complete=_truth(found, "final_reads_complete"),
        ended_ns=_of(int, found.get("ended_ns")),
        zookeeper_logs=_texts(found, "zookeeper_logs"),
        zookeeper_lost=_texts(found, "zookeeper_lost") or (),
        zookeeper_discarded=_texts(found, "zookeeper_discarded") or (),
        plan_digest=_of(str, found.get("plan_digest")),
    )


def _broken(said: Any) -> Broken | None:
    match said:
        case {"name": str(name), "sentence": str(sentence), "at_ns": int(at_ns)}:
            return Broken(name=name, sentence=sentence, at_ns=at_ns)
    return None


def _told(listed: Any) -> Iterator[tuple[int, str]]:
    for each in listed if isinstance(listed, list) else ():
        match each:
            case {"node": int(node), "text": str(text)}:
                yield node, text


def _texts(found: Mapping[str, Any], name: str) -> tuple[str, ...] | None:
    listed = found.get(name)
    return tuple(map(str, listed)) if isinstance(listed, list) else None


def _of(kind: type[T], said: Any) -> T | None:
    return said if isinstance(said, kind) else None


def _truth(found: Mapping[str, Any], name: str) -> bool | None:
    """Return the value as a bool; anything but true is False."""
    said = found.get(name)
    return None if said is None else said is True
