"""Executes the notebooks of the documentation, and makes pages of them.

    python -m tests.tools.notebooks

A notebook is executed cell by cell in one process, as Jupyter does it: what a cell prints and the
value of its last expression are its output. The outputs are written into the notebook.
`tests.tools.reference_pages` makes pages of the site from them. Neither needs Jupyter.
"""

import ast
import contextlib
import io
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

NOTEBOOKS: Final = Path(__file__).parents[2] / "docs" / "notebooks"

Notebook = dict[str, Any]


def notebooks() -> list[Path]:
    """Every notebook of the documentation."""
    return sorted(NOTEBOOKS.glob("*.ipynb"))


def execute(notebook: Notebook, folder: Path) -> Notebook:
    """Return the notebook with the outputs of its cells; it is executed in `folder`."""
    names: dict[str, Any] = {"__name__": "__main__"}
    cells, number = [], 0
    with contextlib.chdir(folder):
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code":
                number += 1
                outputs = list(_outputs("".join(cell["source"]), names, number))
                cell = {**cell, "execution_count": number, "outputs": outputs}
            cells.append(cell)
    return {**notebook, "cells": cells}


def _outputs(code: str, names: dict[str, Any], number: int) -> Iterator[dict[str, Any]]:
    """Run a cell and yield what Jupyter would show."""
    module = ast.parse(code)
    last = module.body.pop() if module.body and isinstance(module.body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with contextlib.redirect_stdout(printed):
        exec(compile(module, f"<cell {number}>", "exec"), names)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), f"<cell {number}>", "eval"), names)
    if text := printed.getvalue():
        yield {"output_type": "stream", "name": "stdout", "text": _lines(text)}
    if value is not None:
        shown = {"text/plain": _lines(repr(value))}
        yield {
            "output_type": "execute_result",
            "execution_count": number,
            "data": shown,
            "metadata": {},
        }


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def notebook_page(path: Path) -> str:
    """The notebook as a page of the site: its texts, its code, and its outputs."""
    notebook = json.loads(path.read_text())
    parts = []
    for cell in notebook["cells"]:
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(text)
            continue
        parts.append(f"```python\n{text}\n```")
        shown = "".join("".join(_text_of(output)) for output in cell["outputs"]).rstrip()
        if shown:
            parts.append(f"```text\n{shown}\n```")
    parts.append(
        f"This page is made from [the notebook]({path.name}) by "
        "`python -m tests.tools.reference_pages`."
    )
    return "\n\n".join(parts) + "\n"


def _text_of(output: Mapping[str, Any]) -> list[str]:
    found: list[str] = output["text"] if "text" in output else output["data"]["text/plain"]
    return found


def main() -> None:
    """Execute every notebook, and write it."""
    os.environ.setdefault("COLUMNS", "100")
    for path in notebooks():
        with tempfile.TemporaryDirectory(prefix="highwater-notebook-") as scratch:
            made = execute(json.loads(path.read_text()), Path(scratch))
        path.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n")
        print(path)


if __name__ == "__main__":
    main()
