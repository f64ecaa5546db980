"""The workload of kind `app`: a program of the user, which reads one topic and writes an output."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

DEFAULT_GROUP: Final = "highwater-app"
MAX_WAIT_S: Final = 3_600


class _Frozen(BaseModel):
    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True
    )


Image = Annotated[str | None, Field(pattern=r"^[A-Za-z0-9][\w./:@-]*$", max_length=500)]
"""The name of an image, as `docker run` takes it."""


def check_program(command: Sequence[str], image: str | None) -> None:
    """Check that there is a program. Raises ValueError."""
    if not command and image is None:
        raise ValueError(
            'command: give the program and its arguments, as in command = ["python", "app.py"], or '
            'the image of a container, as in image = "bills:1"'
        )


class Output(_Frozen):
    """Where the program puts its output. Give one of `topic`, `file`, `sql` and `http`."""

    topic: str | None = Field(default=None, pattern=r"^[A-Za-z0-9._-]{1,249}$")
    """A topic; each committed record is one element of the output."""
    partitions: int = Field(default=4, ge=1, le=1_000)
    """Partitions of the output topic, which is made before the program starts."""
    replication_factor: int = Field(default=3, ge=1, le=1_000)
    """Replicas of each partition of the output topic."""
    file: str | None = Field(default=None, min_length=1)
    """A file; each line is one element. A path begins at the program's directory."""
    sql: str | None = Field(default=None, min_length=1)
    """An SQLAlchemy URL of a database; each row of `query` is one element. `env:NAME` means the
    value of that environment variable."""
    query: str | None = Field(default=None, min_length=1)
    """For `sql`: a query with the rows, such as `SELECT * FROM bills`."""
    http: bool = False
    """An HTTP address that highwater serves; each line of a POST or PUT is one element."""
    value: Literal["id", "number"] = "id"
    """What an element has of its input: the `id`, or the `number`."""
    pattern: str | None = None
    """A regular expression; its first group has the id or the number. Default: the first in the
    element."""
    ignore: str | None = None
    """A regular expression; elements that match it are no output, such as a heading."""

    @property
    def kind(self) -> str:
        """`topic`, `file`, `sql` or `http`."""
        return next((n for n in ("topic", "file", "sql") if getattr(self, n) is not None), "http")

    @property
    def text(self) -> str:
        """The output in words, such as `file out.txt`."""
        return "HTTP" if self.http else f"{self.kind} {getattr(self, self.kind)}"

    @field_validator("pattern", "ignore")
    @classmethod
    def _is_regular_expression(cls, found: str | None) -> str | None:
        try:
            groups = re.compile(found or "").groups
        except re.error as error:
            raise ValueError(f"is no regular expression: {error}") from error
        return found if groups or found is None else f"({found})"

    @model_validator(mode="after")
    def _is_one(self) -> Self:
        given = [n for n in ("topic", "file", "sql") if getattr(self, n) is not None]
        given += ["http"] if self.http else []
        if len(given) != 1:
            raise ValueError(
                "output: give one of topic, file, sql and http, not "
                f"{' and '.join(given) or 'none'}"
            )
        if (self.sql is None) != (self.query is None):
            raise ValueError('output: sql and query go together: sql = "sqlite:///bills.db", '
                             'query = "SELECT * FROM bills"')  # fmt: skip
        return self


class AppWorkload(_Frozen):
    """A program that reads a topic and writes an output. `highwater test-app` makes such plans."""

    kind: Literal["app"]
    """The kind of workload."""
    client: Literal["librdkafka"] = "librdkafka"
    """The client library that reads the output."""
    group: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,249}$")] = DEFAULT_GROUP
    """The consumer group that the program is told (HIGHWATER_GROUP), and its name in the
    verdict."""
    command: tuple[str, ...] = ()
    """The program and its arguments. `${HIGHWATER_...}` is replaced, as in `environment`."""
    image: Image = None
    """An OCI image of the Docker daemon here. Each instance is a container, and `command` its
    arguments, by default the image's own."""
    directory: str
    """The program's working directory. A container has it at the same path, and works in the
    image's."""
    environment: dict[str, str] = {}
    """Variables in addition to highwater's own environment, or to the image's."""
    instances: int = Field(default=1, ge=1, le=100)
    """How many processes of the program run at a time."""
    input: str
    """The topic that the program reads; the plan's producers write to it."""
    sink: Output
    """The program's output."""
    processing: Literal["at-most-once", "at-least-once", "exactly-once"]
    """What the program claims: how often each input has an effect on the output."""
    ordered_by: Literal["key"] | None = None
    """What the program claims of order: inputs of one key come out in their order."""
    lag_s: float = Field(default=30.0, gt=0, le=MAX_WAIT_S)
    """The program must have the output of all inputs so long after the faults are healed and the
    last input is sent, s."""
    stop_s: float = Field(default=10.0, gt=0, le=MAX_WAIT_S)
    """How long the program may take to end after SIGTERM, s; then it is killed."""

    @property
    def shared(self) -> tuple[Path, ...]:
        """The directories of this machine that a container of the program has, too."""
        folder = Path(self.directory)
        file = Path(self.sink.file).parent if self.sink.file is not None else folder
        return (folder,) if file.is_relative_to(folder) else (folder, file)

    @model_validator(mode="after")
    def _is_startable(self) -> Self:
        check_program(self.command, self.image)
        return self

    @model_validator(mode="after")
    def _rows_are_in_order(self) -> Self:
        query = (self.sink.query or "").lower()
        if self.ordered_by and self.sink.kind == "sql" and "order by" not in query:
            raise ValueError(
                "ordered_by: rows have no order of their own; add ORDER BY to the output's query"
            )
        return self
