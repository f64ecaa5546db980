"""`highwater elle RUN`: checks dependencies between transactions, natively or with Elle itself."""

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.base import Exit
from harness.cli.interchange import export_app
from harness.cli.options import AsJson, Debug, Engine, EngineName, StoredRun

if TYPE_CHECKING:
    from checkers.elle.graph import GraphVerdict
    from checkers.frames.frames import Frames

ANSWER_FILE = "elle.json"
TIMEOUT_S = 600.0


def elle(
    run_dir: StoredRun,
    elle_jar: Annotated[
        Path | None,
        typer.Option(help="Check with this elle-cli jar. Default: the native checker."),
    ] = None,
    engine: Engine = EngineName.DUCKDB,
    timeout: Annotated[
        float, typer.Option(min=1, help="Give up after so many seconds.")
    ] = TIMEOUT_S,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Check the transactions of a stored run for cycles.

    It looks for cycles of dependencies, and for forbidden reads.
    """
    from checkers.elle.graph import check_graph
    from checkers.elle.jar import run_elle
    from harness.judging import judge
    from harness.recording import imports, store

    run = store.open_run(run_dir)
    store.seal(run.path)
    if elle_jar is not None and not elle_jar.is_file():
        raise store.StoreError(
            f"{elle_jar}: no such jar; leave out --elle-jar to use the native checker"
        )
    with _frames(run.path, engine) as frames:
        if elle_jar is None:
            verdict = check_graph(frames, timeout_s=timeout)
        else:
            with tempfile.TemporaryDirectory(prefix="highwater-elle-") as folder:
                history = Path(folder) / "history.json"
                imports.save(history, _list_append(frames))
                verdict = run_elle(elle_jar, history, timeout_s=timeout)
    run.write_json(ANSWER_FILE, verdict.as_json())
    print(json.dumps(verdict.as_json()) if as_json else text(verdict))
    raise Exit(judge.EXIT_CODES[verdict.outcome.value])


@export_app.command("elle")
def export_elle(
    run_dir: StoredRun,
    file: Annotated[Path, typer.Argument(help="The JSON file to write.")],
    debug: Debug = False,
) -> None:
    """Write a run as list-append transactions, for elle-cli."""
    from harness.recording import imports, store

    with _frames(store.open_run(run_dir).path, EngineName.DUCKDB) as frames:
        imports.save(file, _list_append(frames))
    print(file)


def _list_append(frames: "Frames") -> str:
    from checkers.elle.list_append import to_list_append

    return to_list_append(frames)


@contextmanager
def _frames(run_dir: Path, engine: EngineName) -> Iterator["Frames"]:
    """Yield the frames of a stored run on an engine that is closed after. Raises StoreError."""
    from checkers.frames.frames import Frames
    from checkers.history.history import HistoryError, load_plan, load_run
    from harness.judging import judge
    from harness.recording.store import StoreError

    with judge.open_engine(engine.value, run_dir) as made:
        try:
            yield Frames(made, load_run(run_dir), load_plan(run_dir))
        except HistoryError as error:
            raise StoreError(str(error)) from error


def text(verdict: "GraphVerdict") -> str:
    """Return the answer for people: the outcome, the reasons, one example of each anomaly."""
    lines = [verdict.outcome.value, *(f"  {reason}" for reason in verdict.reasons)]
    for each in verdict.anomalies:
        lines.append(f"{each.count} {each.name}: {each.judgement.value}: {each.reason}")
        lines += [f"    {step}" for example in each.examples[:1] for step in example]
    return "\n".join([*lines, f"checked by {verdict.checker}"])
