"""The nights of the store's suites, with what each came to. What cannot be read is left out."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from harness.nightly.results import Outcome, worst
from harness.serve.store_files import Place, Vault, VaultError
from harness.serve.summaries import NIGHTLY

NIGHTS: Final = 60
SUITES: Final = 200
FILE_BYTES: Final = 32 << 20
TOLD: Final = ("summary.md", "junit.xml", "metrics.prom")


def suites(vault: Vault) -> list[Mapping[str, Any]]:
    """Each suite with its last nights, the newest first."""
    found: list[Mapping[str, Any]] = []
    for suite in _directories(vault, (NIGHTLY,))[:SUITES]:
        home = (NIGHTLY, suite)
        names = sorted(_directories(vault, home), reverse=True)
        nights = [night for name in names[:NIGHTS] if (night := _night(vault, (*home, name)))]
        trend = (*home, "trend.html")
        found.append(
            {
                "name": suite,
                "trend": trend if _exists(vault, trend) else None,
                "nights": nights,
                "more": max(0, len(names) - NIGHTS),
            }
        )
    return found


def _night(vault: Vault, place: Place) -> Mapping[str, Any] | None:
    try:
        night = json.loads(vault.read((*place, "night.json"), FILE_BYTES))
        began = datetime.fromtimestamp(float(night["began_s"]), tz=UTC)
        trials = len(night["trials"])
    except (VaultError, ValueError, KeyError, TypeError, OverflowError, OSError):
        return None
    results = _results(vault, (*place, "trials.jsonl"))
    outcomes = list(results.values())
    return {
        "place": place,
        "name": place[-1],
        "began": f"{began:%Y-%m-%d %H:%M}",
        "over": night.get("ended_s") is not None,
        "trials": trials,
        "counts": [(o, outcomes.count(o)) for o in Outcome if outcomes.count(o)],
        "worst": worst(outcomes),
        "files": [name for name in TOLD if _exists(vault, (*place, name))],
    }


def _results(vault: Vault, place: Place) -> dict[tuple[str, int], Outcome]:
    found = {}
    try:
        lines = vault.read(place, FILE_BYTES).splitlines()
    except VaultError:
        return {}
    for line in lines:
        try:
            result = json.loads(line)["result"]
            found[str(result["cell"]), int(result["seed"])] = Outcome(result["outcome"])
        except (ValueError, KeyError, TypeError):
            continue
    return found


def _directories(vault: Vault, place: Place) -> list[str]:
    try:
        return [entry.name for entry in vault.entries(place) if entry.kind == "directory"]
    except VaultError:
        return []


def _exists(vault: Vault, place: Place) -> bool:
    try:
        return vault.about(place).kind == "file"
    except VaultError:
        return False
