"""The reference of the public Python API, made from its docstrings; see `reference_pages`."""

import inspect
import re
from collections.abc import Iterator
from typing import Any, Final

import highwater

MODELS: Final = ("Plan", "Topic", "Workload", "Nemesis", "Event")
"""Described key by key in the reference of plans."""
EXAMPLE: Final = re.compile(r"^Examples?:\n((?:    .*\n|\n)+)", re.MULTILINE)

INTRODUCTION: Final = """\
# Python API

`import highwater` gives everything on this page. These names are public, typed and stable.
Everything else in the project is private. The examples are run by the tests; `RUN`, `SIMULATED` and
`UNJUDGED` are paths of stored runs, and `STORE` is a folder.
[A notebook](../notebooks/three-questions.md) asks a stored run three questions.

This page is made from the code by `python -m tests.tools.reference_pages`."""


def api_page() -> str:
    """Every public name: its signature, what it does, and its example."""
    parts = [INTRODUCTION]
    for name in highwater.__all__:
        found = getattr(highwater, name)
        if name == "__version__":
            parts.append("## `__version__`\n\nThe version of highwater, as text.")
        elif name in MODELS:
            parts.append(
                f"## `{name}`\n\n{_described(found)}\n\nEvery key is in the "
                "[plan reference](plan.md)."
            )
        else:
            parts += _entry(name, found)
    return "\n\n".join(parts) + "\n"


def _entry(name: str, found: Any) -> Iterator[str]:
    yield f"## `{_title(name, found)}`"
    yield _described(found)
    if not inspect.isclass(found) or issubclass(found, Exception):
        return
    for each, member in vars(found).items():
        public = not each.startswith("_") or each == "__len__"
        if public and (callable(member) or isinstance(member, property)):
            yield f"### `{name}.{_title(each, member)}`"
            yield _described(member)


def _title(name: str, found: Any) -> str:
    """The name, with the parameters and the type of the result of a function."""
    if inspect.isclass(found):
        return name
    if isinstance(found, property):
        return f"{name}: {_type(inspect.signature(found.fget).return_annotation)}"
    signature = inspect.signature(found)
    shown = [_parameter(each) for each in signature.parameters.values() if each.name != "self"]
    kinds = [each.kind for each in signature.parameters.values() if each.name != "self"]
    if inspect.Parameter.KEYWORD_ONLY in kinds:
        shown.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "*")
    if inspect.Parameter.POSITIONAL_ONLY in kinds:
        shown.insert(kinds.count(inspect.Parameter.POSITIONAL_ONLY), "/")
    return f"{name}({', '.join(shown)}) -> {_type(signature.return_annotation)}"


def _parameter(found: inspect.Parameter) -> str:
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    text = stars.get(found.kind, "") + found.name
    if found.annotation is not inspect.Parameter.empty:
        text += f": {_type(found.annotation)}"
    return text if found.default is inspect.Parameter.empty else f"{text} = {found.default!r}"


def _type(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")


def _described(found: Any) -> str:
    """The docstring as Markdown: its example becomes a code block."""
    text = (inspect.getdoc(found) or "") + "\n"
    text = EXAMPLE.sub(lambda match: f"```pycon\n{inspect.cleandoc(match[1])}\n```\n", text)
    return text.strip()
