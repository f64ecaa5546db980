"""Kinds of runs, by the `system` of their plans."""

from typing import Final

from checkers.history.plan_file import EXTERNAL, IMPORTED

DEPLOYED: Final = frozenset({"nodes", "kafka"})
"""The `system` of plans whose nodes the harness starts, and whose files it reads."""
RUN_HERE: Final = DEPLOYED | {EXTERNAL}
ANY: Final = RUN_HERE | {IMPORTED}
