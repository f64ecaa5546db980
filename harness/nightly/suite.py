"""The suite file: cells, seeds, budget, known violations, retention. TOML.

    name = "nightly"
    budget_min = 480           # wall time; trials that do not fit are reported as left out
    seeds = 2                  # per cell, new every night

    [matrix]                   # every combination is a cell
    plan = ["first-light"]     # packaged plans, or files relative to the suite
    acks = ["1", "all"]
    faults = ["kill,pause", "partition.*"]
    duration_s = 30            # a single value holds for all cells

    [expect]                   # for every cell, besides the contract and the plan's own
    lost.acks-all = 0
    unavailable_ms = "<= 5000"

    [[cell]]                   # one more cell
    plan = "plans/rolling.toml"
    expect = ["publish_p99_ms <= 50"]

    [[canary]]                 # a broken broker that must be detected every night
    plan = "acks-all-leader-cut-off"
    broker_module = "harness.zoo.mutants.ack_before_replication"
    expect = "lost-write"

    [[known]]                  # shown every night, but not a failure
    cell = "*acks-1*"
    anomaly = "duplicate"
    reason = "a bug of the client"
    link = "https://..."

Every mistake is a SuiteError of one sentence, raised before anything starts.
"""

import difflib
import tomllib
from pathlib import Path
from typing import Annotated, Any, Final, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from checkers.contract.rules import Judgement
from checkers.detectors.registry import RULES
from harness.plans.errors import TOO_DEEP
from harness.plans.plan import Expect, PlanError
from harness.plans.problems import describe_problems
from harness.simulation.invariants.names import INVARIANTS

FINDABLE: Final = (
    *dict.fromkeys(row.anomaly for row in RULES if row.judgement is Judgement.FORBIDDEN),
    *INVARIANTS,
)
"""Everything that can be a forbidden anomaly of a run, with the invariants of simulations."""


class SuiteError(PlanError):
    """A suite that cannot run. The message says what is wrong, where, and what to do."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


def _several(value: object) -> object:
    return value if isinstance(value, list | tuple) else [value]


def _joined(value: object) -> object:
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else value


Text = Annotated[str, BeforeValidator(_joined)]
"""A text, or a list of texts that is joined with commas."""


class CellSettings(_Frozen):
    """What a trial runs. Keys that are not given stay as the plan has them."""

    plan: str = "first-light"
    acks: Text | None = None
    faults: Text | None = None
    schedule: str | None = None
    nodes: int | None = Field(default=None, ge=1, le=15)
    rate_per_s: float | None = Field(default=None, ge=0)
    duration_s: float | None = Field(default=None, gt=0)
    nemesis: str | None = None
    target: str | None = None
    broker_module: str | None = None


class Matrix(_Frozen):
    """Values for the keys of a cell. Every combination is a cell."""

    plan: Annotated[tuple[str, ...], BeforeValidator(_several)] = ()
    acks: Annotated[tuple[Text, ...], BeforeValidator(_several)] = ()
    faults: Annotated[tuple[Text, ...], BeforeValidator(_several)] = ()
    schedule: Annotated[tuple[str, ...], BeforeValidator(_several)] = ()
    nodes: Annotated[tuple[int, ...], BeforeValidator(_several)] = ()
    rate_per_s: Annotated[tuple[float, ...], BeforeValidator(_several)] = ()
    duration_s: Annotated[tuple[float, ...], BeforeValidator(_several)] = ()
    nemesis: Annotated[tuple[str, ...], BeforeValidator(_several)] = ()
    target: Annotated[tuple[str, ...], BeforeValidator(_several)] = ()
    broker_module: Annotated[tuple[str, ...], BeforeValidator(_several)] = ()


class CellEntry(CellSettings):
    """A cell or canary that is listed by itself."""

    name: str | None = Field(default=None, pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]{0,99}$")
    seeds: int | None = Field(default=None, ge=1, le=10_000)
    """Seeds per night, instead of the suite's number."""


class SingleCell(CellEntry):
    """One `[[cell]]`."""

    expect: Expect = ()
    """Expectations besides those of the suite and of the plan."""


def _findable(value: object) -> object:
    if isinstance(value, str) and value not in FINDABLE:
        near = difflib.get_close_matches(value, FINDABLE, n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise ValueError(
            f"no check can forbid {value!r}{hint}, so the canary would never be detected; possible "
            f"values: {', '.join(FINDABLE)}"
        )
    return value


class Canary(CellEntry):
    """One `[[canary]]`: a run with a broken broker, which must be INVALID."""

    expect: Annotated[str | None, BeforeValidator(_findable)] = None
    """The forbidden anomaly that must be found; None: any."""


class KnownViolation(_Frozen):
    """One `[[known]]`: a violation that is shown every night and is not a failure of the night."""

    cell: str = "*"
    """A pattern of cell names, with `*` and `?`."""
    anomaly: str
    reason: str = Field(min_length=1)
    link: str | None = None


class Retention(_Frozen):
    """How long runs are kept, in nights. Summaries are always kept."""

    passed: int = Field(default=3, ge=0)
    """Nights for runs that passed."""
    failed: int = Field(default=90, ge=0)
    """Nights for runs of every other outcome."""


class Suite(_Frozen):
    """A whole suite."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")
    budget_min: float = Field(default=480, gt=0)
    seeds: int = Field(default=1, ge=1, le=10_000)
    parallel: int = Field(default=0, ge=0, le=64)
    """Trials at a time; 0: one for every two idle cores."""
    timeout_min: float = Field(default=60, gt=0)
    """A trial that takes longer is ended and counts as a failure of the harness."""
    keep: Retention = Retention()
    webhook: str | None = Field(default=None, pattern=r"^https?://")
    expect: Expect = ()
    """Expectations for every cell, but not for canaries: their broker is broken on purpose."""
    matrix: Matrix = Matrix()
    cell: tuple[SingleCell, ...] = ()
    canary: tuple[Canary, ...] = ()
    known: tuple[KnownViolation, ...] = ()

    @classmethod
    def from_json(cls, raw: dict[str, Any], where: str) -> Self:
        """Validate raw data. Raises SuiteError; its message starts with `where`."""
        try:
            return cls.model_validate(raw)
        except ValidationError as error:
            raise SuiteError(f"{where}: {describe_problems(error, cls, 'the suite')}") from error

    def to_json(self) -> dict[str, Any]:
        """Return JSON-able data for `from_json`."""
        return self.model_dump(mode="json", exclude_defaults=True) | {"name": self.name}


def load(path: Path) -> Suite:
    """Read a suite from a TOML file. Raises SuiteError."""
    try:
        raw = tomllib.loads(path.read_text())
    except tomllib.TOMLDecodeError as error:
        raise SuiteError(f"suite {path}: this is no valid TOML: {error}") from error
    except RecursionError as error:
        raise SuiteError(f"suite {path}: {TOO_DEEP}") from error
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise SuiteError(f"suite {path}: cannot be read ({reason}); give a TOML file") from error
    return Suite.from_json(raw, f"suite {path}")
