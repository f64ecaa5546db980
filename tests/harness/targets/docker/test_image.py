"""The content of the image, tested without a daemon."""

import ast
import sys
from pathlib import Path

import pytest

import nodes
from harness.targets.docker import image


def test_the_image_has_exactly_the_packages_that_the_broker_imports() -> None:
    """Besides the standard library."""
    imported = set()
    for path in Path(nodes.__file__).parent.rglob("*.py"):
        for each in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(each, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in each.names}
            elif isinstance(each, ast.ImportFrom) and each.module and not each.level:
                imported.add(each.module.partition(".")[0])
    assert imported - sys.stdlib_module_names - {"nodes"} == set(image.NEEDED)


def test_the_image_name_depends_on_the_content(monkeypatch: pytest.MonkeyPatch) -> None:
    """Changed content gives another name."""
    before = image.tag()
    assert before == image.tag()
    monkeypatch.setattr(image, "_context", lambda: {"Dockerfile": b"FROM nothing"})
    assert image.tag() != before
