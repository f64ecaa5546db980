"""What a suite says: which cells, how many seeds, how long, what is known, what is kept. TOML.

    name = "nightly"
    budget_min = 480           # of wall time; cells that do not fit are said to be left out
    seeds = 2                  # per cell and night, new every night

    [matrix]                   # every combination is a cell
    plan = ["first-light"]     # packaged plans, or files from the suite's directory on
    acks = ["1", "all"]
    faults = ["kill,pause", "partition.*"]
    duration_s = 30            # one value is the same for all

    [expect]                   # of every cell, beside the contract; plans may have their own
    lost.acks-all = 0
    unavailable_ms = "<= 5000"

    [[cell]]                   # one more cell, by itself
    plan = "plans/rolling.toml"
    expect = ["publish_p99_ms <= 50"]

    [[canary]]                 # a broken broker, which must be found every night
    plan = "acks-all-leader-cut-off"
    broker_module = "mutants.ack_early"
    expect = "lost-write"

    [[known]]                  # shown, but no failure of the night
    cell = "*acks-1*"
    anomaly = "duplicate"
    reason = "the client's own"
    link = "https://..."

Everything wrong is a SuiteError of one sentence, found before anything is started.
"""

import difflib
import tomllib
from pathlib import Path
from typing import Annotated, Any, Final, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from checkers.contract.contract import CONTRACT, Judgement
from harness.plans.errors import TOO_DEEP
from harness.plans.plan import Expect, PlanError, explained
from harness.simulation.invariants.names import INVARIANTS

FINDABLE: Final = (
    *dict.fromkeys(row.anomaly for row in CONTRACT if row.judgement is Judgement.FORBIDDEN),
    *INVARIANTS,
)
"""What can be among the forbidden anomalies of a run, invariants of simulated worlds included."""


class SuiteError(PlanError):
    """A suite that cannot be run; the message says what is wrong, where, and what to do."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


def _several(value: object) -> object:
    return value if isinstance(value, list | tuple) else [value]


def _joined(value: object) -> object:
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else value


Text = Annotated[str, BeforeValidator(_joined)]
"""A text, or a list of texts to be joined by commas."""


class What(_Frozen):
    """What a trial runs; those that are not given are the plan's own."""

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
    """Values of every key of a cell; every combination is one."""

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


class One(What):
    """What is run by itself."""

    name: str | None = Field(default=None, pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]{0,99}$")
    seeds: int | None = Field(default=None, ge=1, le=10_000)
    """Per night, in place of the suite's."""


class Single(One):
    """A cell by itself."""

    expect: Expect = ()
    """Beside the suite's expectations and the plan's."""


def _findable(value: object) -> object:
    if isinstance(value, str) and value not in FINDABLE:
        near = difflib.get_close_matches(value, FINDABLE, n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise ValueError(
            f"no check can forbid {value!r}{hint}, so that the canary would never be found; there "
            f"are {', '.join(FINDABLE)}"
        )
    return value


class Canary(One):
    """A run that must be INVALID: a broken broker that the suite has to find."""

    expect: Annotated[str | None, BeforeValidator(_findable)] = None
    """The anomaly that has to be among the forbidden ones; any will do without."""


class Known(_Frozen):
    """A violation that is known: shown every night, and no failure of it."""

    cell: str = "*"
    """A pattern of cells' names, as of files."""
    anomaly: str
    reason: str = Field(min_length=1)
    link: str | None = None


class Keep(_Frozen):
    """How long runs are kept, in nights; summaries are kept for ever."""

    passed: int = Field(default=3, ge=0)
    """Whole runs that found nothing."""
    failed: int = Field(default=90, ge=0)
    """Whole runs of every other outcome."""


class Suite(_Frozen):
    """A whole suite."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")
    budget_min: float = Field(default=480, gt=0)
    seeds: int = Field(default=1, ge=1, le=10_000)
    parallel: int = Field(default=0, ge=0, le=64)
    """Trials at a time; 0 is one for every two cores that are free."""
    timeout_min: float = Field(default=60, gt=0)
    """How long one trial may take before it is ended, which is a failure of the harness."""
    keep: Keep = Keep()
    webhook: str | None = Field(default=None, pattern=r"^https?://")
    expect: Expect = ()
    """Of every cell, but of no canary, whose broker is broken on purpose."""
    matrix: Matrix = Matrix()
    cell: tuple[Single, ...] = ()
    canary: tuple[Canary, ...] = ()
    known: tuple[Known, ...] = ()

    @classmethod
    def from_json(cls, raw: dict[str, Any], where: str) -> Self:
        """Validate raw data. Raises SuiteError, which starts with `where`."""
        try:
            return cls.model_validate(raw)
        except ValidationError as error:
            raise SuiteError(f"{where}: {explained(error, 'the suite')}") from error

    def to_json(self) -> dict[str, Any]:
        """The suite as JSON-able data, which `from_json` reads back."""
        return self.model_dump(mode="json", exclude_defaults=True) | {"name": self.name}


def load(path: Path) -> Suite:
    """The suite of a TOML file. Raises SuiteError."""
    try:
        raw = tomllib.loads(path.read_text())
    except tomllib.TOMLDecodeError as error:
        raise SuiteError(f"suite {path}: is no valid TOML: {error}") from error
    except RecursionError as error:
        raise SuiteError(f"suite {path}: {TOO_DEEP}") from error
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise SuiteError(f"suite {path}: cannot be read ({reason}); give a TOML file") from error
    return Suite.from_json(raw, f"suite {path}")
