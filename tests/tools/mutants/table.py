"""The mutants that were found, by module, and those that were not, one by one."""

from collections import defaultdict
from collections.abc import Sequence

from tests.tools.mutants.trial import Tried


def table(tried: Sequence[Tried]) -> str:
    """Return the table, the shares and the survivors for people."""
    by_module: dict[str, list[Tried]] = defaultdict(list)
    for each in sorted(tried, key=lambda each: each.mutation.name):
        by_module[each.mutation.module].append(each)
    rows = [("module", "mutants", "tests", "invariants", "clients", "found")]
    rows += [_row(module, found) for module, found in sorted(by_module.items())]
    rows.append(_row("all", tried))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    for title, which in (
        ("not found, although seeds differed:", [e for e in tried if not e.found and not e.same]),
        (
            "not found, and no seed differed that reached it (equivalent?):",
            [e for e in tried if not e.found and e.same and e.reached],
        ),
        ("not found, and no seed reached it:", [e for e in tried if not e.found and not e.reached]),
    ):
        lines += [title, *(f"  {each.mutation.name} {each.mutation.text()}" for each in which)]
    return "\n".join(lines)


def _row(module: str, tried: Sequence[Tried]) -> tuple[str, ...]:
    counts = (
        len(tried),
        sum(each.tests is not None for each in tried),
        sum(each.invariants is not None for each in tried),
        sum(each.clients is not None for each in tried),
        sum(each.found for each in tried),
    )
    return (module, *map(str, counts))
