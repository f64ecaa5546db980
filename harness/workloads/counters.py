"""Prints the counters of a client process: one JSON line a second on standard output."""

import contextlib
import json
import sys
from collections import deque
from collections.abc import Iterable
from typing import Final

from harness.recording.history import OperationWriter
from harness.workloads.clients.counts import Tally
from harness.workloads.configs import AnyConfig

STAT_INTERVAL_S: Final = 1.0


def print_stat(config: AnyConfig, tallies: Iterable[Tally], writer: OperationWriter) -> None:
    """Print the present counters as one line."""
    line = stat_line(config.name, config.acks, tallies, writer.now_ns())
    with contextlib.suppress(OSError):  # the reader died, but the history must go on
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def stat_line(topic: str, acks: int, tallies: Iterable[Tally], at_ns: int) -> str:
    """Return the counters since the start and latency quantiles of recent sends as one JSON
    line."""
    tallies = list(tallies)
    recent = sorted(latency for tally in tallies for latency in _drain(tally.latencies_ns))
    return json.dumps(
        {
            "at_ns": at_ns,
            "topic": topic,
            "acks": acks,
            "sent": sum(tally.sent for tally in tallies),
            "acked": sum(tally.acked for tally in tallies),
            "failed": sum(tally.failed for tally in tallies),
            "info": sum(tally.info for tally in tallies),
            "read": sum(tally.read for tally in tallies),
            "p50_ms": _quantile_ms(recent, 0.5),
            "p99_ms": _quantile_ms(recent, 0.99),
            "error": next((tally.last_error for tally in tallies if tally.last_error), None),
        }
    )


def _drain(latencies_ns: deque[int]) -> list[int]:
    # The owner goes on appending, so the deque must not be iterated.
    return [latencies_ns.popleft() for _ in range(len(latencies_ns))]


def _quantile_ms(ordered_ns: list[int], q: float) -> float | None:
    return round(ordered_ns[int(q * (len(ordered_ns) - 1))] / 1e6, 3) if ordered_ns else None
