"""`highwater plugins`: what the installed packages add to highwater, and what cannot be used."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from harness.cli.options import AsJson, Debug


class Found(NamedTuple):
    """What other packages add by one entry point group."""

    what: str
    names: Mapping[str, str]
    """Each name with its package."""
    problems: tuple[str, ...]
    keys: Mapping[str, Mapping[str, str]] = {}
    """The keys of each kind of workload, and what they mean."""

    def as_json(self) -> dict[str, Any]:
        """Return it for programs."""
        found = {**self._asdict(), "names": dict(self.names)}
        return found if self.keys else {n: each for n, each in found.items() if n != "keys"}


def plugins(as_json: AsJson = False, debug: Debug = False) -> None:
    """List what other packages add: faults, detectors, systems, targets, clients, workloads.

    Kinds of workloads are listed with their keys. It also says what packages declare but cannot be
    used, and why.
    """
    found = list(_found())
    if as_json:
        print(json.dumps([each.as_json() for each in found], indent=2))
        return
    for each in found:
        print(each.what if each.names else f"{each.what}: none")
        for name, package in each.names.items():
            print(f"  {name} ({package})")
            for key, meaning in each.keys.get(name, {}).items():
                print(f"    {key}: {meaning}")
        for problem in each.problems:
            print(f"  left out: {problem}")


def _found() -> Iterator[Found]:
    from checkers.detectors import registry
    from harness.plans.plan import SYSTEM_NAMES, TARGET_NAMES
    from harness.plans.workload_kinds import KIND_NAMES, keys_of, kinds_of_others
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
    kinds, problems = kinds_of_others()
    keys = {name: keys_of(kind) for name, kind in kinds.items()}
    yield Found("workloads", KIND_NAMES.packages(), tuple(problems), keys)
