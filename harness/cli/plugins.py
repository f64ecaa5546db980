"""`highwater plugins`: what the installed packages add to highwater, and what cannot be used."""

import json
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from harness.cli.options import AsJson, Debug


class Found(NamedTuple):
    """What other packages add by one entry point group."""

    what: str
    names: Mapping[str, str]
    """Each name with its package."""
    problems: tuple[str, ...]


def plugins(as_json: AsJson = False, debug: Debug = False) -> None:
    """List what other packages add: faults, detectors, systems, targets, clients.

    It also says what they declare but cannot be used, and why.
    """
    found = list(_found())
    if as_json:
        print(
            json.dumps([{**each._asdict(), "names": dict(each.names)} for each in found], indent=2)
        )
        return
    for each in found:
        print(each.what if each.names else f"{each.what}: none")
        for name, package in each.names.items():
            print(f"  {name} ({package})")
        for problem in each.problems:
            print(f"  left out: {problem}")


def _found() -> Iterator[Found]:
    from checkers.detectors import registry
    from harness.plans.plan import SYSTEM_NAMES, TARGET_NAMES
    from harness.plans.workloads import CLIENT_NAMES
    from nemesis.faults import catalogue

    yield Found("faults", catalogue.OF_OTHERS.packages, catalogue.OF_OTHERS.problems)
    yield Found("detectors", registry.OF_OTHERS.packages, registry.OF_OTHERS.problems)
    for what, choice in (
        ("systems", SYSTEM_NAMES),
        ("targets", TARGET_NAMES),
        ("clients", CLIENT_NAMES),
    ):
        yield Found(what, choice.packages(), tuple(choice.problems()))
