"""The target of a cluster that already runs: what it notes and removes of a tested program."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

from harness.recording.journal import Journal
from harness.targets.docker import undo
from harness.targets.external import ExternalKind
from harness.targets.request import TargetRequest


@pytest.mark.parametrize("image", [None, "bills:1"])
def test_containers_of_the_program_are_noted_first_and_removed_at_the_end(
    image: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that is a command has none."""
    removed: list[Mapping[str, object]] = []

    def remove(fields: Mapping[str, object]) -> None:
        removed.append(fields)

    monkeypatch.setattr(undo, "UNDO", MappingProxyType({undo.PROGRAM: remove}))
    monkeypatch.setenv("DOCKER_HOST", "unix:///here")
    path, registry = tmp_path / "journal.jsonl", tmp_path / "registry"
    registry.mkdir()
    with Journal.create(path, run_id="run", registry=registry) as journal:
        target = ExternalKind().make(
            TargetRequest(
                run_id="run", run_dir=tmp_path, nodes=(), journal=journal, program_image=image
            )
        )
        target.up()
        noted = [record for record in journal.records() if record["kind"] == undo.PROGRAM]
        target.down()
        journal.finish()
    fields = {"daemon": "unix:///here", "run_id": "run"}
    assert removed == ([] if image is None else [fields])
    assert [{name: each[name] for name in fields} for each in noted] == removed
