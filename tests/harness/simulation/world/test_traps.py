"""What makes a run depend on more than its seed: refused in the broker's sources, or made harmless.

The guard and the loop take care of clocks, chance, threads, the order of sets of tasks. The rest is
a matter of how code is written, and looked for here: in the broker, in the simulation, and in the
administrative client that runs in it.
"""

import ast
import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.simulation.worlds import MakeBare

ROOT = Path(__file__).parents[4]
SOURCES = sorted(
    path
    for folder in ("nodes", "harness/simulation/world", "harness/admin")
    for path in (ROOT / folder).rglob("*.py")
)
NAMES = {
    "as_completed": "asyncio.as_completed takes coroutines from a set, in the order of addresses",
    "all_tasks": "asyncio.all_tasks is a set in the order of addresses, of all hosts together",
    "WeakSet": "a WeakSet has the order of addresses",
    "id": "an address differs from run to run",
    "hash": "the hash of a string differs from process to process",
}
CLOCKS = (["datetime", "now"], ["datetime", "utcnow"], ["datetime", "today"], ["date", "today"])
MODULES = {"threading", "multiprocessing", "secrets", "concurrent"}
EXCUSED = {"harness/simulation/world/guard.py", "nodes/__main__.py"}
"""One names what it refuses, and the other runs in no simulated world."""


def trapped(tree: ast.AST) -> Iterator[str]:
    """What a module does that may differ between two runs of one seed."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            if name in NAMES and not isinstance(getattr(node.func, "value", None), ast.Call):
                yield f"line {node.lineno}: {NAMES[name]}"
            if ast.unparse(node.func).split(".")[-2:] in CLOCKS:
                yield f"line {node.lineno}: {ast.unparse(node.func)} is the real clock"
            if name == "Random" and not node.args:
                yield f"line {node.lineno}: a Random without a seed"
        elif isinstance(node, ast.For | ast.comprehension):
            if isinstance(node.iter, ast.Set | ast.SetComp) or _makes_a_set(node.iter):
                yield f"line {node.iter.lineno}: the order of a set"
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] in MODULES:
                    yield f"line {node.lineno}: {alias.name}"


def _makes_a_set(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and getattr(node.func, "id", "") in {"set", "frozenset"}


def test_sources_do_nothing_that_depends_on_more_than_the_seed() -> None:
    """Whatever runs in the world does the same for the same seed."""
    trees = {str(path.relative_to(ROOT)): ast.parse(path.read_text()) for path in SOURCES}
    found = {name: list(trapped(tree)) for name, tree in trees.items() if name not in EXCUSED}
    assert trees.keys() > EXCUSED
    assert {name: each for name, each in found.items() if each} == {}


@pytest.mark.parametrize(
    "line",
    [
        "for x in {1, 2}: pass",
        "y = [x for x in set(z)]",
        "asyncio.as_completed([f()])",
        "datetime.now()",
        "random.Random()",
        "sorted(z, key=lambda x: id(x))",
        "hash(name) % 3",
        "weakref.WeakSet()",
        "import threading",
    ],
)
def test_lint_finds_each_trap(line: str) -> None:
    """Each of the traps."""
    assert list(trapped(ast.parse(line)))


def test_sets_of_tasks_are_ordered_by_number(make: MakeBare) -> None:
    """`asyncio.wait` returns sets, and a task group keeps one."""
    world = make()
    cancelled: list[int] = []

    async def sleeper(number: int) -> int:
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            cancelled.append(number)
            raise
        return number

    async def main() -> list[int]:
        tasks = [asyncio.ensure_future(asyncio.sleep(1, number)) for number in range(50)]
        done, _ = await asyncio.wait(tasks)
        numbers = [hash(task) for task in tasks]
        assert numbers == sorted(numbers)
        try:
            async with asyncio.TaskGroup() as group:
                for number in range(20):
                    group.create_task(sleeper(number))
                await asyncio.sleep(1)
                raise ValueError
        except* ValueError:
            pass
        return [task.result() for task in done]

    first = world.run(0, main), tuple(cancelled)
    cancelled.clear()
    again = make()
    assert (again.run(0, main), tuple(cancelled)) == first


def test_task_names_come_from_the_host(make: MakeBare) -> None:
    """A counter of the process would depend on earlier runs."""
    world = make()

    async def main() -> str:
        async def child() -> str:
            task = asyncio.current_task()
            assert task is not None
            return task.get_name()

        return await asyncio.create_task(child())

    assert world.run(2, main) == "node-2-2"
