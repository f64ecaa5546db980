"""The reference of the commands, made from their own declarations; see `reference_pages`."""

from collections.abc import Iterator
from typing import Any, Final

from typer import Context
from typer.main import get_command

from harness.cli.main import app

NAME: Final = "highwater"
COMMON: Final = {"--help", "--debug", "--install-completion", "--show-completion"}
"""Options that the introduction describes once."""

INTRODUCTION: Final = """\
# Commands

Every command has `--help`, and most have `--debug`, which adds the traceback to an error. Results
go to stdout, everything else to stderr. `highwater --install-completion` lets bash, zsh, fish or
PowerShell complete commands, options, plans and faults.

| exit code | means |
|---|---|
| 0 | VALID and every expectation met; of commands that judge nothing: done |
| 1 | INVALID, or an expectation was not met; of `zoo`: a mutant was missed |
| 2 | UNKNOWN, or an expectation is undecided; `bench`: a measurement failed |
| 254 | bad arguments, plan or run directory; nothing was started |
| 255 | the harness itself failed |

This page is made from the code by `python -m tests.tools.reference_pages`."""


def commands_page() -> str:
    """Every command: what it does, its arguments and options."""
    return "\n\n".join([INTRODUCTION, *_sections(get_command(app), None, NAME)]) + "\n"


def _sections(command: Any, parent: Context | None, name: str) -> Iterator[str]:
    """The sections of a command and of those below it."""
    context = Context(command, info_name=name, parent=parent)
    below = getattr(command, "commands", None)
    if parent is not None:
        yield f"## `{context.command_path}`"
        yield command.help
        if below is None:
            yield _usage(command, context)
            yield from _table(command, context)
    for each in (below or {}).values():
        yield from _sections(each, context, each.name)


def _usage(command: Any, context: Context) -> str:
    return (
        f"```text\n{' '.join([context.command_path, *command.collect_usage_pieces(context)])}\n```"
    )


def _table(command: Any, context: Context) -> Iterator[str]:
    """A row for each argument and option."""
    records = [p.get_help_record(context) for p in command.params if not COMMON & {*p.opts}]
    rows = [f"| `{_cell(names)}` | {_cell(text)} |" for names, text in filter(None, records)]
    if rows:
        yield "\n".join(["| argument or option | meaning |", "|---|---|", *rows])


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
