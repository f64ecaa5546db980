"""A client of another package: producers that collect records for 50 ms, on confluent-kafka."""

import sys


def command() -> list[str]:
    """Return the command that starts the client program."""
    return [sys.executable, "-m", "highwater_batcher.client"]
