"""`highwater plans` and `highwater plan show | init`: the packaged plans, and a new plan file."""

import json
import re
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from harness.cli.options import AsJson, Debug, command_group

STARTER: Final = "starter.toml"
"""The file that `plan init` copies, in `harness.plans`."""
STARTER_NAME: Final = "my-plan"
"""The name of the plan in that file."""

plan_app = command_group("Show a packaged plan, or write a new plan.")


@dataclass(frozen=True, slots=True, kw_only=True)
class PackagedPlan:
    """One plan that comes with highwater, as `highwater plans` lists it."""

    name: str
    kind: str
    """plan, or scenario: a plan for one known effect."""
    purpose: str
    """The first comment line of its file."""
    duration_s: float
    """The length of its fault phase."""

    def as_json(self) -> dict[str, Any]:
        """Return the plan's line for programs."""
        return {
            "name": self.name,
            "kind": self.kind,
            "purpose": self.purpose,
            "duration_s": self.duration_s,
        }


def packaged_plans() -> list[PackagedPlan]:
    """Return the packaged plans, then the scenarios, each by name."""
    from harness.plans.plan import build, load, packaged_files

    found = [
        PackagedPlan(
            name=name,
            kind="scenario" if path.parent.name == "scenarios" else "plan",
            purpose=purpose_of(path.read_text()),
            duration_s=build(load(name), where=f"plan {name}").duration_s,
        )
        for name, path in packaged_files().items()
    ]
    return sorted(found, key=lambda each: (each.kind, each.name))


def purpose_of(toml: str) -> str:
    """Return the first comment line of a plan's file; nothing when the file has no comment."""
    found = re.search(r"^#\s*(.+)$", toml, re.MULTILINE)
    return "" if found is None else found[1].strip()


def plans(as_json: AsJson = False, debug: Debug = False) -> None:
    """List the packaged plans.

    Each line has the name, the length of the fault phase, and the purpose.
    """
    found = packaged_plans()
    if as_json:
        print(json.dumps([each.as_json() for each in found], indent=2))
        return
    width = max(len(each.name) for each in found)
    for kind, heading in (("plan", "plans"), ("scenario", "scenarios: one known effect each")):
        print(heading)
        for each in found:
            if each.kind == kind:
                print(f"  {each.name:<{width}}  {each.duration_s:>5g} s  {each.purpose}")
        print()
    print("run one       highwater run NAME")
    print("look at one   highwater plan show NAME")
    print("write one     highwater plan init FILE")


@plan_app.command("show")
def show(
    name: Annotated[str, typer.Argument(help="The name of a packaged plan, or a TOML file.")],
    resolved: Annotated[
        bool,
        typer.Option("--resolved", help="Print every key, with the defaults that the plan omits."),
    ] = False,
    debug: Debug = False,
) -> None:
    """Print a plan as TOML.

    It prints the file as it is, or with --resolved every key with its value.
    """
    from harness.plans.plan import build, load, packaged_files

    raw = load(name)
    plan = build(raw, where=f"plan {name}")
    if not resolved:
        print(packaged_files().get(name, Path(name)).read_text(), end="")
        return
    import tomli_w

    values = _without_none(plan.to_json())
    if "seed" not in raw:
        del values["seed"]
        print("# no seed: every run draws one")
    print(tomli_w.dumps(values), end="")


@plan_app.command("init")
def init(
    file: Annotated[Path, typer.Argument(help="The TOML file to write; it must not exist.")],
    debug: Debug = False,
) -> None:
    """Write a commented plan to start from.

    It runs as it is.
    """
    from harness.plans.errors import PlanError

    text = resources.files("harness.plans").joinpath(STARTER).read_text()
    name = re.sub(r"[^a-z0-9._-]+", "-", file.stem.lower()).strip("._-")[:64] or STARTER_NAME
    try:
        with file.open("x") as written:
            written.write(text.replace(f'"{STARTER_NAME}"', f'"{name}"'))
    except FileExistsError as error:
        raise PlanError(
            f"{file}: exists already and is not overwritten; name another file"
        ) from error
    except OSError as error:
        raise PlanError(f"{file}: cannot be written ({error.strerror})") from error
    print(file)


def _without_none(value: Any) -> Any:
    """Return the value without keys that hold None, which TOML cannot write."""
    if isinstance(value, dict):
        return {key: _without_none(each) for key, each in value.items() if each is not None}
    if isinstance(value, list):
        return [_without_none(each) for each in value]
    return value
