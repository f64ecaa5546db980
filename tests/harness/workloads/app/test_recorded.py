"""The elements of an output are recorded while the program works, each once."""

from pathlib import Path
from typing import Any

import pytest
import sqlalchemy

from checkers.history.history import HISTORY
from harness.plans.app_workload import Output
from harness.workloads.app.elements import Extraction, Place
from harness.workloads.app.outputs.base import Elements
from harness.workloads.app.outputs.file import FileOutput
from harness.workloads.app.outputs.sql import SqlOutput
from harness.workloads.app.recorded import REREAD, OutputRows
from harness.workloads.clients.payload import value_of
from harness.workloads.clients.text_payload import Ids
from tests.support.clients.recorded import Rows

IDS = Ids("run")
CLIENT = 7


def line(sequence: int) -> str:
    """A line with the id of an input."""
    return f"bill of {IDS.id_of(value_of(1001, sequence))}\n"


class Recorded:
    """An output and its rows."""

    def __init__(self) -> None:
        self.writer = Rows()
        self.elements = Elements(Extraction(Output(file="f"), IDS), self.writer.now_ns)
        self.rows = OutputRows(self.elements, self.writer, CLIENT)

    def told(self) -> list[Any]:
        """The rows: place and sequence of each element, or `app-reread`."""
        named = [dict(zip(HISTORY.names, row, strict=True)) for row in self.writer.rows]
        return [
            REREAD if row["f"] == REREAD else (row["offset"], row["value"] & 0xFFFF)
            for row in named
        ]


@pytest.fixture
def recorded() -> Recorded:
    """An output without elements."""
    return Recorded()


def test_lines_are_recorded_as_soon_as_they_are_complete(
    recorded: Recorded, tmp_path: Path
) -> None:
    """The last read adds only what is new, and keeps when each was first seen."""
    path = tmp_path / "out.txt"
    output = FileOutput(path, recorded.elements)
    path.write_text(line(1) + line(2)[:-5])
    output.poll()
    recorded.rows.record()
    assert recorded.told() == [(0, 1)]
    path.write_text(line(1) + line(2) + line(3)[:-1])
    output.poll()
    recorded.rows.record()
    assert recorded.told() == [(0, 1), (1, 2)]
    seen = recorded.elements.by_place[Place(0, 0)].seen_ns
    output.finish()
    recorded.rows.finish()
    assert recorded.told() == [(0, 1), (1, 2), (2, 3)]
    assert recorded.elements.by_place[Place(0, 0)].seen_ns == seen


@pytest.mark.parametrize("after", [[2, 1], [1], [1, 3]])
def test_changed_file_is_recorded_again_in_the_end(
    recorded: Recorded, tmp_path: Path, after: list[int]
) -> None:
    """Another line at a place, or a line that is gone, ends the early rows."""
    path = tmp_path / "out.txt"
    output = FileOutput(path, recorded.elements)
    path.write_text(line(1) + line(2))
    output.poll()
    recorded.rows.record()
    path.write_text("".join(map(line, after)))
    output.poll()
    recorded.rows.record()
    assert recorded.told() == [(0, 1), (1, 2)]
    output.finish()
    recorded.rows.finish()
    again = list(enumerate(after))
    assert recorded.told() == [(0, 1), (1, 2), REREAD, *again]


def test_file_that_was_written_anew_with_the_same_lines_goes_on(
    recorded: Recorded, tmp_path: Path
) -> None:
    """No line is recorded twice."""
    path = tmp_path / "out.txt"
    output = FileOutput(path, recorded.elements)
    for text in (line(1) + line(2), line(1), line(1) + line(2) + line(3)):
        path.write_text(text)
        output.poll()
        recorded.rows.record()
    output.finish()
    recorded.rows.finish()
    assert recorded.told() == [(0, 1), (1, 2), (2, 3)]


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("INSERT INTO bills VALUES (3, '{}')", [(0, 1), (1, 2), (2, 3)]),
        (
            "INSERT INTO bills VALUES (0, '{}')",
            [(0, 1), (1, 2), REREAD, (0, 3), (1, 1), (2, 2)],
        ),
        ("DELETE FROM bills WHERE n = 2 -- {}", [(0, 1), (1, 2), REREAD, (0, 1)]),
    ],
)
def test_rows_of_a_database_are_recorded_while_they_only_become_more(
    recorded: Recorded, tmp_path: Path, statement: str, told: list[Any]
) -> None:
    """A row in between, or one that is gone, ends the early rows."""
    url = f"sqlite:///{tmp_path}/bills.db"
    engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool)

    def do(text: str) -> None:
        with engine.begin() as connection:
            connection.execute(sqlalchemy.text(text))

    do("CREATE TABLE bills (n INTEGER, id TEXT)")
    for number in (1, 2):
        do(f"INSERT INTO bills VALUES ({number}, '{line(number).strip()}')")
    query = "SELECT id FROM bills ORDER BY n"
    output = SqlOutput(url, query, recorded.elements, recorded.writer.now_ns)
    output.poll()
    recorded.rows.record()
    assert recorded.told() == [(0, 1), (1, 2)]
    do(statement.format(line(3).strip()))
    output.finish()
    recorded.rows.finish()
    assert recorded.told() == told
    output.close()


def test_output_of_a_useless_run_does_not_count(recorded: Recorded) -> None:
    """A row says so, if there are rows."""
    recorded.rows.discard()
    assert recorded.told() == []
    recorded.elements.add(Place(0, 0), line(1))
    recorded.rows.record()
    recorded.rows.discard()
    assert recorded.told() == [(0, 1), REREAD]
