"""The result of a benchmark: samples, systems and machine; and its JSON file.

The file is for other programs and for later comparison (`--baseline`). Its `schema` names the
format, and changes with the format. A sample is one measurement. Medians and ratios are not stored;
they follow from the samples.
"""

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from harness.bench.options import BenchError
from harness.bench.points import QUANTITIES, Point
from harness.bench.stats import Spread, paired_ratio, spread, unpaired_ratio
from harness.recording.store import write_atomic
from harness.recording.versions import commit, versions

SCHEMA: Final = "highwater-bench/1"
CLIENT_ALONE: Final = "client alone"
"""Stands for a system's name in samples of a client without a broker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One measurement: its values by name, or the error."""

    point: Point
    system: str
    round: int
    values: Mapping[str, float]
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The result of a whole benchmark."""

    started: str
    """UTC, ISO 8601."""
    seconds: float
    options: Mapping[str, Any]
    systems: Sequence[Mapping[str, Any]]
    """In the order of the command line; the others are compared with the first."""
    machine: Mapping[str, Any]
    samples: Sequence[Sample]
    stopped: bool = False
    """The benchmark was stopped before everything was measured."""

    @property
    def names(self) -> list[str]:
        """The names of the systems."""
        return [str(system["name"]) for system in self.systems]

    @property
    def points(self) -> list[Point]:
        """All points that were tried, in order."""
        return list(dict.fromkeys(sample.point for sample in self.samples))

    @property
    def failures(self) -> list[Sample]:
        """The samples without values."""
        return [sample for sample in self.samples if sample.error is not None]

    def values(self, point: Point, system: str, quantity: str) -> dict[int, float]:
        """Return the values of a quantity by round."""
        return {
            sample.round: sample.values[quantity]
            for sample in self.samples
            if sample.point == point and sample.system == system and quantity in sample.values
        }

    def spread(self, point: Point, system: str, quantity: str) -> Spread | None:
        """Return the spread of a quantity over the rounds; None when it was never measured."""
        found = list(self.values(point, system, quantity).values())
        return spread(found) if found else None

    def ratio(self, point: Point, system: str, reference: str) -> Spread | None:
        """Return the ratio of two systems' first quantity, computed round by round."""
        name = QUANTITIES[point.measure][0].name
        return paired_ratio(self.values(point, system, name), self.values(point, reference, name))

    def to_json(self) -> dict[str, Any]:
        """Return plain data, which `from_json` reads back."""
        return {
            "schema": SCHEMA,
            "started": self.started,
            "seconds": round(self.seconds, 1),
            "stopped": self.stopped,
            "options": dict(self.options),
            "systems": [dict(each) for each in self.systems],
            "machine": dict(self.machine),
            "samples": [
                {
                    **sample.point.to_json(),
                    "system": sample.system,
                    "round": sample.round,
                    "values": dict(sample.values),
                    "error": sample.error,
                }
                for sample in self.samples
            ],
        }

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Self:
        """Return the result of plain data. Raises KeyError, TypeError, ValueError."""
        if raw["schema"] != SCHEMA:
            raise ValueError(f"schema {raw['schema']!r} instead of {SCHEMA!r}")
        return cls(
            started=str(raw["started"]),
            seconds=float(raw["seconds"]),
            stopped=bool(raw["stopped"]),
            options=raw["options"],
            systems=raw["systems"],
            machine=raw["machine"],
            samples=[
                Sample(
                    point=Point.from_json(each),
                    system=str(each["system"]),
                    round=int(each["round"]),
                    values={str(k): float(v) for k, v in each["values"].items()},
                    error=each["error"],
                )
                for each in raw["samples"]
            ],
        )


def save(result: Result, path: Path) -> None:
    """Write the JSON file atomically. Raises BenchError when it cannot be written."""
    try:
        write_atomic(path, json.dumps(result.to_json(), indent=1) + "\n")
    except OSError as error:
        raise BenchError(f"{path}: cannot be written ({error.strerror})") from error


def load(path: Path) -> Result:
    """Read a JSON file. Raises BenchError when it is no result of a benchmark."""
    try:
        return Result.from_json(json.loads(path.read_text()))
    except OSError as error:
        raise BenchError(f"{path}: cannot be read ({error.strerror})") from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BenchError(f"{path}: is no result of highwater bench: {error}") from error


def against_baseline(result: Result, baseline: Result, point: Point, system: str) -> Spread | None:
    """Return the ratio of a point to an earlier result; None when that has no such point.

    It is compared with the system of the same name, or with the only system of that result.
    """
    name = QUANTITIES[point.measure][0].name
    names = baseline.names
    other = system if system in names else names[0] if len(names) == 1 else None
    if other is None:
        return None
    ours, theirs = result.spread(point, system, name), baseline.spread(point, other, name)
    return unpaired_ratio(ours, theirs) if ours and theirs else None


def machine() -> dict[str, Any]:
    """Return the facts of this machine."""
    return {
        "cpu": _field(Path("/proc/cpuinfo"), "model name") or platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memory": _field(Path("/proc/meminfo"), "MemTotal"),
        "load_before": [round(each, 2) for each in os.getloadavg()],
        "commit": commit(),
        "versions": versions(),
    }


def _field(path: Path, name: str) -> str:
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return ""
    found = (line.partition(":")[2] for line in lines if line.startswith(name))
    return next(found, "").strip()
