"""A program that uses the public API, as a user types it: it is run, and checked by mypy."""

import sys
from pathlib import Path

import highwater


def slowest_send_ms(run: highwater.Run) -> float:
    """The slowest acknowledged send of a run, in milliseconds."""
    row = (
        run.operations.duckdb()
        .filter("f = 'send' AND type = 'ok'")
        .aggregate("coalesce(max(complete_ns - invoke_ns), 0) / 1e6")
        .fetchone()
    )
    return float(row[0]) if row else 0.0


def losses(verdict: highwater.Verdict) -> dict[str, int]:
    """The number of lost writes of each topic."""
    found: dict[str, int] = {}
    for anomaly in verdict.lost:
        topic = anomaly.topic or "?"
        found[topic] = found.get(topic, 0) + anomaly.count
    return found


def main(where: Path) -> None:
    """Print what a stored run shows."""
    plan: highwater.Plan = highwater.plan("first-light", nodes=5)
    topics: tuple[highwater.Topic, ...] = plan.topics
    print(len(topics))
    try:
        run = highwater.load(where)
        verdict = highwater.check(run, expect=["lost.acks-all = 0"])
    except highwater.HighwaterError as error:
        sys.exit(str(error))
    print(verdict.outcome, losses(verdict), f"{slowest_send_ms(run):.1f} ms")
    hit: list[str] = run.faults.arrow()["fault"].to_pylist()
    print(hit, run.started.year)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
