"""The kinds of workloads in plans, with those of other packages: names, loading, validation."""

import json
from typing import Annotated, Any, Final

from pydantic import BaseModel, SerializeAsAny, ValidationError, WrapValidator

from harness.plans.errors import PlanError
from harness.plans.plugged import WORKLOADS, OneOf
from harness.plans.problems import describe_problems, nearest
from harness.plans.workload_kind import WorkloadKind, why_not

PRODUCE: Final = "produce"
"""The kind of the plan's own producers and consumers, and of an entry without a kind."""
PLUGGED: Final = "plugged"
"""The tag of all kinds that other packages declare."""
KIND_NAMES: Final = OneOf((PRODUCE, "group", "copy", "transactions", "compacted", "app"), WORKLOADS)
"""All kinds, with those of other packages."""


def kind_of(entry: object) -> object:
    """Return the kind of an entry of `[[workload]]`."""
    return entry.get("kind", PRODUCE) if isinstance(entry, dict) else PRODUCE


def kind_of_others(name: str) -> type[WorkloadKind]:
    """Return the kind that another package declares by this name. Raises PlanError."""
    found = KIND_NAMES.load(name)
    if (why := why_not(found)) is not None:
        raise PlanError(KIND_NAMES.problem(name, why))
    return found  # type: ignore[no-any-return]  # why_not has checked it


def kinds_of_others() -> tuple[dict[str, type[WorkloadKind]], list[str]]:
    """Return the kinds that packages declare by name, and which of them cannot be used, and why."""
    found, problems = {}, KIND_NAMES.problems()
    for name in KIND_NAMES.packages():
        try:
            found[name] = kind_of_others(name)
        except PlanError as error:
            problems.append(str(error))
    return found, list(dict.fromkeys(problems))


def keys_of(kind: type[WorkloadKind]) -> dict[str, str]:
    """Return what the keys of a kind mean, without those that all kinds have."""
    found = {}
    for name, field in kind.model_fields.items():
        if name not in WorkloadKind.model_fields:
            default = "required" if field.is_required() else f"default {json.dumps(field.default)}"
            meaning = " ".join((field.description or "").split())
            found[name] = f"{meaning} ({default})".lstrip()
    return found


def _of_others(value: Any, _: object) -> WorkloadKind:
    """Validate an entry whose kind another package declares."""
    if isinstance(value, WorkloadKind):
        return value
    name = kind_of(value)
    if not isinstance(name, str) or not KIND_NAMES.has(name):
        raise ValueError(no_kind(name))
    try:
        kind = kind_of_others(name)
    except PlanError as error:
        raise ValueError(str(error)) from error
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        raise ValueError(describe_problems(error, kind, f"workload {name}")) from error
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        raise ValueError(KIND_NAMES.problem(name, why)) from error


PluggedWorkload = Annotated[SerializeAsAny[WorkloadKind], WrapValidator(_of_others)]
"""A workload of a kind that another package declares."""


def tag(value: Any) -> str:
    """Return what tells the classes of further workloads apart, for a raw or a validated one."""
    kind = value.kind if isinstance(value, BaseModel) else kind_of(value)  # type: ignore[attr-defined]
    return kind if isinstance(kind, str) and kind in KIND_NAMES.own else PLUGGED


def no_kind(kind: object) -> str:
    """Return that there is no such kind, and which there are."""
    names = KIND_NAMES.names()
    return (
        f"there is no kind {kind!r}{nearest(str(kind), names)} (kinds: {', '.join(names)}); if it "
        "is of another package, install that package"
    )
