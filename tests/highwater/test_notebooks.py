"""The notebooks of the documentation run, and show what they show."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.tools.notebooks import execute, notebooks


def shown(notebook: dict[str, Any]) -> list[int]:
    """How many outputs each code cell has."""
    return [len(cell["outputs"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]


@pytest.mark.slow
@pytest.mark.parametrize("path", notebooks(), ids=lambda path: path.name)
def test_a_notebook_runs_and_each_question_has_an_answer(path: Path, tmp_path: Path) -> None:
    stored = json.loads(path.read_text())
    made = execute(stored, tmp_path)
    assert shown(made) == shown(stored)
    assert all(shown(made))
