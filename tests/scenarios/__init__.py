"""Plans whose faults are scripted: an old bug each, named after it, and one plain breaking.

A scenario runs like any plan: `highwater run tests/scenarios/NAME.toml --broker-module MODULE`.
"""

from pathlib import Path

from harness.plans.plan import build, load
from harness.run.prepare import Prepared, prepare
from harness.zoo.entries import SCENARIOS

NAMES = tuple(sorted(path.stem for path in Path(__file__).parent.glob("*.toml")))


def path_of(name: str) -> Path:
    """The scenario's file; of "zoo/NAME", the zoo's."""
    folder, _, own = name.rpartition("/")
    return (SCENARIOS if folder == "zoo" else Path(__file__).parent) / f"{own}.toml"


def prepared(name: str) -> Prepared:
    """The scenario as a checked plan with its schedule. Raises PlanError."""
    source = str(path_of(name))
    return prepare(build(load(source), where=name))
