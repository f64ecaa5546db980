"""Plans whose faults are scripted: an old bug each, named after it, and one plain breaking.

A scenario runs like any plan: `highwater run tests/scenarios/NAME.toml --broker-module MODULE`.
"""

from pathlib import Path

from harness.planning.plan import build, load
from harness.planning.preparing import Prepared, prepare

NAMES = tuple(sorted(path.stem for path in Path(__file__).parent.glob("*.toml")))


def path_of(name: str) -> Path:
    """The scenario's file."""
    return Path(__file__).parent / f"{name}.toml"


def prepared(name: str) -> Prepared:
    """The scenario as a checked plan with its schedule. Raises PlanError."""
    source = str(path_of(name))
    return prepare(build(load(source), where=name))
