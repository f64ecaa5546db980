"""The mutants that were found, by module, and those that were not, one by one."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from tests.tools.mutants.explained import why
from tests.tools.mutants.trial import Tried

COLUMNS: Final = (
    "module", "mutants", "tests", "simulated", "invariants", "clients", "found", "explained",
    "open",
)  # fmt: skip


def table(tried: Sequence[Tried]) -> str:
    """Return the table and the survivors for people.

    simulated: mutants whose seeds were run. explained: equivalent ones. open: neither found nor
    explained.
    """
    by_module: dict[str, list[Tried]] = defaultdict(list)
    for each in sorted(tried, key=lambda each: each.mutation.name):
        by_module[each.mutation.module].append(each)
    rows: list[tuple[str, ...]] = [COLUMNS]
    rows += [_row(module, found) for module, found in sorted(by_module.items())]
    rows.append(_row("all", tried))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    left = [each for each in tried if not each.found]
    unclear = [each for each in left if why(each.mutation) is None]
    for title, which in (
        ("not found, although seeds differed:", [each for each in unclear if not each.same]),
        (
            "not found, and no seed differed that reached it (equivalent?):",
            [each for each in unclear if each.same and each.reached],
        ),
        ("not found, and no seed reached it:", [each for each in unclear if not each.reached]),
    ):
        lines += [title, *(f"  {each.mutation.name} {each.mutation.text()}" for each in which)]
    lines.append("explained:")
    lines += [f"  {e.mutation.name} {e.mutation.text()}: {why(e.mutation)}" for e in left
              if why(e.mutation) is not None]  # fmt: skip
    return "\n".join(lines)


def _row(module: str, tried: Sequence[Tried]) -> tuple[str, ...]:
    counts = (
        len(tried),
        sum(each.tests is not None for each in tried),
        sum(each.simulated for each in tried),
        sum(each.invariants is not None for each in tried),
        sum(each.clients is not None for each in tried),
        sum(each.found for each in tried),
        sum(not each.found and why(each.mutation) is not None for each in tried),
        sum(not each.found and why(each.mutation) is None for each in tried),
    )
    return (module, *map(str, counts))
