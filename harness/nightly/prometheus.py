"""One night as a Prometheus text file, for node-exporter's textfile collector or a pushgateway."""

from collections.abc import Sequence

from prometheus_client import CollectorRegistry, Gauge, generate_latest

from harness.nightly.night import Night
from harness.nightly.results import Outcome, Result, by_cell, exit_code, worst


def metrics(night: Night, results: Sequence[Result]) -> str:
    """Return the gauges in the text format 0.0.4. Times are seconds since 1970, in full precision.

    A value that nothing measured has no line.
    """
    registry = CollectorRegistry()
    suite = night.suite.name

    def gauge(name: str, about: str, *labels: str) -> Gauge:
        return Gauge(f"highwater_nightly_{name}", about, ("suite", *labels), registry=registry)

    runs = gauge("runs", "Runs of the last night, by outcome.", "outcome")
    for outcome in Outcome:
        runs.labels(suite, outcome).set(sum(r.outcome is outcome for r in results))
    about = "0 valid, 1 violation or failed expectation, 2 unknown, 255 error."
    gauge("exit_code", about).labels(suite).set(exit_code(results))
    gauge("began_seconds", "When the last night began, since 1970.").labels(suite).set(
        night.began_s
    )
    if night.ended_s is not None:
        gauge("ended_seconds", "When the last night ended, since 1970.").labels(suite).set(
            night.ended_s
        )
    states = gauge("cell", "The outcome of each cell.", "cell", "outcome")
    expected = gauge("expectations", "The users' expectations, by outcome.", "cell", "outcome")
    lost = gauge(
        "acknowledged_lost", "Acknowledged writes that were lost, permitted or not.", "cell", "acks"
    )
    times = {
        "p99_ms": gauge("p99_ms", "The slowest topic's p99 latency of acknowledgements.", "cell"),
        "unavailable_ms": gauge(
            "unavailable_ms", "The longest time without an acknowledgement in a partition.", "cell"
        ),
    }
    for cell, found in by_cell(results).items():
        states.labels(suite, cell, worst(r.outcome for r in found)).set(1)
        for result in found:
            for row in result.expectations:
                expected.labels(suite, cell, row["outcome"]).inc()
            for acks, count in result.lost.items():
                lost.labels(suite, cell, acks).inc(count)
        for name, longest in times.items():
            if values := [v for r in found if (v := getattr(r, name)) is not None]:
                longest.labels(suite, cell).set(max(values))
    return generate_latest(registry).decode()
