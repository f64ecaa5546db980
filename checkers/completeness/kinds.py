"""Kinds of runs, by the `system` of their plans."""

from typing import Final

from checkers.history.plan_file import EXTERNAL, IMPORTED

OF_ANOTHER_PACKAGE: Final = "another package's"
"""The kind of a run whose system has a name that is none of ours. The harness starts its nodes."""
DEPLOYED: Final = frozenset({"nodes", "kafka", OF_ANOTHER_PACKAGE})
"""The kinds of runs whose nodes the harness starts, and whose files it reads."""
RUN_HERE: Final = DEPLOYED | {EXTERNAL}
ANY: Final = RUN_HERE | {IMPORTED}


def kind_of(system: object) -> str | None:
    """Return the kind of a plan's run by its `system`; None if that is no name. A name that is none
    of ours needs all evidence, so that a wrong name excuses nothing."""
    if not isinstance(system, str) or not system:
        return None
    return system if system in ANY else OF_ANOTHER_PACKAGE
