"""The nights of the store's suites with their outcomes. Unreadable nights are left out."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from harness.nightly.results import Outcome, worst
from harness.serve.store_files import Place, StoreFileError, StoreFiles
from harness.serve.summaries import NIGHTLY

NIGHTS: Final = 60
SUITES: Final = 200
FILE_BYTES: Final = 32 << 20
RESULT_FILES: Final = ("summary.md", "junit.xml", "metrics.prom")


def suites(store_files: StoreFiles) -> list[Mapping[str, Any]]:
    """Return each suite with its last nights, the newest first."""
    found: list[Mapping[str, Any]] = []
    for suite in _directories(store_files, (NIGHTLY,))[:SUITES]:
        home = (NIGHTLY, suite)
        names = sorted(_directories(store_files, home), reverse=True)
        nights = [night for name in names[:NIGHTS] if (night := _night(store_files, (*home, name)))]
        trend = (*home, "trend.html")
        found.append(
            {
                "name": suite,
                "trend": trend if _exists(store_files, trend) else None,
                "nights": nights,
                "more": max(0, len(names) - NIGHTS),
            }
        )
    return found


def _night(store_files: StoreFiles, place: Place) -> Mapping[str, Any] | None:
    try:
        night = json.loads(store_files.read((*place, "night.json"), FILE_BYTES))
        began = datetime.fromtimestamp(float(night["began_s"]), tz=UTC)
        trials = len(night["trials"])
    except (StoreFileError, ValueError, KeyError, TypeError, OverflowError, OSError):
        return None
    results = _results(store_files, (*place, "trials.jsonl"))
    outcomes = list(results.values())
    return {
        "place": place,
        "name": place[-1],
        "began": f"{began:%Y-%m-%d %H:%M}",
        "over": night.get("ended_s") is not None,
        "trials": trials,
        "counts": [(o, outcomes.count(o)) for o in Outcome if outcomes.count(o)],
        "worst": worst(outcomes),
        "files": [name for name in RESULT_FILES if _exists(store_files, (*place, name))],
    }


def _results(store_files: StoreFiles, place: Place) -> dict[tuple[str, int], Outcome]:
    found = {}
    try:
        lines = store_files.read(place, FILE_BYTES).splitlines()
    except StoreFileError:
        return {}
    for line in lines:
        try:
            result = json.loads(line)["result"]
            found[str(result["cell"]), int(result["seed"])] = Outcome(result["outcome"])
        except (ValueError, KeyError, TypeError):
            continue
    return found


def _directories(store_files: StoreFiles, place: Place) -> list[str]:
    try:
        return [entry.name for entry in store_files.entries(place) if entry.kind == "directory"]
    except StoreFileError:
        return []


def _exists(store_files: StoreFiles, place: Place) -> bool:
    try:
        return store_files.about(place).kind == "file"
    except StoreFileError:
        return False
