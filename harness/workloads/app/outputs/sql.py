"""The rows of a query, through SQLAlchemy. Each row is an element: its columns, with blanks."""

import os
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from harness.workloads.app.elements import Place
from harness.workloads.app.outputs.base import Elements

FROM_ENVIRONMENT: Final = "env:"
INTERVAL_S: Final = 2.0
"""How often the query runs while the program works."""
FINAL_S: Final = 10.0
"""How long the last query is repeated while it fails."""
FETCHED: Final = 1_000


def url_of(text: str) -> str:
    """Return a URL; `env:NAME` means the value of that environment variable, so that no plan has a
    password. Raises ValueError without such a variable."""
    name = text.removeprefix(FROM_ENVIRONMENT)
    if name == text:
        return text
    if name not in os.environ:
        raise ValueError(f"output.sql: the environment variable {name} is not set")
    return os.environ[name]


def engine_of(url: str) -> Any:
    """Return SQLAlchemy's engine of a database, not connected. Raises ValueError for a URL that it
    cannot use."""
    import sqlalchemy  # slow, and only this output needs it

    url = url_of(url)

    try:
        return sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool)
    except (sqlalchemy.exc.SQLAlchemyError, ImportError) as error:
        raise ValueError(f"output.sql: {url}: {error}") from error


class SqlOutput:
    """Runs the query again and again."""

    def __init__(self, url: str, query: str, elements: Elements, now_ns: Callable[[], int]) -> None:
        """Raises ValueError for a URL that SQLAlchemy cannot use."""
        import sqlalchemy

        self.elements = elements
        self.problem: str | None = None
        self.address = url_of(url)
        self._now_ns = now_ns
        self._due_s = 0.0
        self._seen: dict[tuple[str, int], int] = {}
        self._engine = engine_of(url)
        self._query = sqlalchemy.text(query)
        self._errors = sqlalchemy.exc.SQLAlchemyError

    def poll(self) -> None:
        """See `OutputReader`."""
        if time.monotonic() >= self._due_s:
            self._run()
            self._due_s = time.monotonic() + INTERVAL_S

    def _run(self) -> None:
        """Replace all elements by the rows that are there now."""
        now_ns, again = self._now_ns(), Counter[str]()
        try:
            with self._engine.connect() as connection:
                rows: Any = connection.execute(self._query)
                self.elements.clear()
                for number, row in enumerate(rows.yield_per(FETCHED)):
                    text = " ".join(map(str, row))
                    again[text] += 1
                    seen_ns = self._seen.setdefault((text, again[text]), now_ns)
                    self.elements.add(Place(0, number), text, seen_ns)
        except self._errors as error:
            self.problem = str(error).split("\n", 1)[0]
            return
        self.problem = None

    def finish(self) -> None:
        """See `OutputReader`."""
        deadline_s = time.monotonic() + FINAL_S
        self._run()
        while self.problem is not None and time.monotonic() < deadline_s:
            time.sleep(0.5)
            self._run()

    def close(self) -> None:
        """See `OutputReader`."""
        self._engine.dispose()
