"""Die at every storage operation in turn: what is on the disk then must be right, or refused.

A scenario does its work on a disk, and knows at any moment what it has been promised:

    class Votes:
        def run(self, disk: Disk) -> None:      # the work; a death leaves it as `Crashed`
        def check(self, disk: Disk) -> None:    # open what is left; raise when it is wrong

    sweep(Votes, seeds=range(3))

`sweep` runs it once for every operation that it makes, and for every way to die there: the process
is killed (all that was written stays, of the write under way any prefix), or the power goes (only
what was synced surely stays; see `MemoryDisk.crash`), once with nothing else left and once for each
seed with a random part. Each time `check` opens what is left, dies itself at a random operation,
perhaps in another way, and checks again: recovery has to bear the same. `sweep_files` does the
same to real files, where only kills can be played.

Nothing here is random but by the seed; a failure names the operation, the way and the seed. For a
long run: `python -m tests.tools.storage_crashes MODULE:SCENARIO... --seeds 200`.
"""

import argparse
import dataclasses
import gc
import importlib
import logging
import random
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol

from nodes.storage.disk import Disk, File, Space, replace_file
from nodes.storage.local import LocalDisk
from nodes.storage.memory import MemoryDisk


class Crashed(BaseException):
    """The process died. Not an Exception: code that survives its own death would hide bugs."""

    def __init__(self, what: str, *, first: bool) -> None:
        super().__init__(what)
        self.first = first
        """Whether it died here, rather than earlier."""


class Scenario(Protocol):
    """What is to be interrupted, and how to tell whether it bore that.

    Before `check`, its attribute `killed` is set: whether all that was written has to be there.
    """

    def run(self, disk: Disk) -> None:
        """Do the work, noting what was promised as soon as it was."""

    def check(self, disk: Disk) -> None:
        """Open what is left on `disk`; raise when it is not what was promised.

        May be run again on the same scenario, after dying anywhere.
        """


class CrashingDisk:
    """Any disk, until operation number `die_at` (from 0): that one fails, and all after it.

    Operations are what changes the disk or makes it durable; `log` names those that were made.
    """

    def __init__(self, inner: Disk, die_at: int | None = None, *, seed: int = 0) -> None:
        self.inner = inner
        self.die_at = die_at
        self.log: list[str] = []
        self.on_death: Callable[[], None] = lambda: None
        """Is called at the death, once: what runs on the disk must end with it."""
        self._rng = random.Random(seed)
        self._dead = False
        self._files: list[File] = []

    def end(self) -> None:
        """Close every file that was opened, as the kernel does for a process that ends."""
        for file in self._files:
            file.close()

    def step(self, what: str) -> None:
        """Count one operation, or die instead of it."""
        if self._dead:
            raise Crashed(what, first=False)
        self._dead = len(self.log) == self.die_at
        self.log.append(what)
        if self._dead:
            self.on_death()
            raise Crashed(what, first=True)

    def torn(self, length: int) -> int:
        """How many bytes of a write its death lets through."""
        return self._rng.choice((0, self._rng.randint(0, length), length))

    def open(self, path: str, *, create: bool = False) -> "CrashingFile":
        if create and not self.inner.exists(path):
            self.step(f"create {path}")
        file = self.inner.open(path, create=create)
        self._files.append(file)
        return CrashingFile(self, file, path)

    def exists(self, path: str) -> bool:
        return self.inner.exists(path)

    def listdir(self, path: str) -> list[str]:
        return self.inner.listdir(path)

    def makedirs(self, path: str) -> None:
        if not self.inner.exists(path):
            self.step(f"makedirs {path}")
        self.inner.makedirs(path)

    def rename(self, source: str, target: str) -> None:
        self.step(f"rename {source} to {target}")
        self.inner.rename(source, target)

    def unlink(self, path: str) -> None:
        self.step(f"unlink {path}")
        self.inner.unlink(path)

    def remove_dir(self, path: str) -> None:
        self.step(f"remove_dir {path}")
        self.inner.remove_dir(path)

    def read(self, path: str) -> bytes:
        return self.inner.read(path)

    def write_atomic(self, path: str, data: bytes, *, durable: bool = True) -> None:
        replace_file(self, path, data, durable=durable)

    def sync_dir(self, path: str) -> None:
        self.step(f"sync_dir {path!r}")
        self.inner.sync_dir(path)

    async def sync(self, target: File | str) -> None:
        if isinstance(target, CrashingFile):
            self.step(f"sync {target.path}")
            await self.inner.sync(target.inner)
        else:
            assert isinstance(target, str)
            self.step(f"sync_dir {target!r}")
            await self.inner.sync(target)

    def space(self) -> Space:
        return self.inner.space()

    def oldest_sync_age_ms(self, now_ms: float) -> float:
        return self.inner.oldest_sync_age_ms(now_ms)


class CrashingFile:
    """An open file of a CrashingDisk."""

    def __init__(self, disk: CrashingDisk, inner: File, path: str) -> None:
        self.inner = inner
        self.path = path
        self._disk = disk

    def size(self) -> int:
        return self.inner.size()

    def pread(self, offset: int, length: int) -> bytes:
        return self.inner.pread(offset, length)

    def append(self, data: bytes | bytearray | memoryview) -> None:
        try:
            self._disk.step(f"append {len(data)} bytes to {self.path}")
        except Crashed as death:
            if death.first:
                self.inner.append(data[: self._disk.torn(len(data))])
            raise
        self.inner.append(data)

    def truncate(self, size: int) -> None:
        self._disk.step(f"truncate {self.path} to {size}")
        self.inner.truncate(size)

    def rewrite(self, start: int = 0) -> None:
        self._disk.step(f"write {self.path} again from {start}")
        self.inner.rewrite(start)

    def sync(self) -> None:
        self._disk.step(f"sync {self.path}")
        self.inner.sync()

    def close(self) -> None:
        self.inner.close()


KILL = -2
"""The way to die in which all that was written stays."""
POWER = -1
"""... in which only what was synced stays. Seeds from 0 on leave a random part of the rest."""

MOST_OPERATIONS = 100_000
"""No scenario makes more."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    """Where and how a scenario died."""

    operation: int
    way: int
    during: str

    def __str__(self) -> str:
        how = {KILL: "killed", POWER: "power lost"}.get(self.way, f"power lost, seed {self.way}")
        return f"{how} at operation {self.operation} ({self.during})"


def sweep(
    make: Callable[[], Scenario],
    *,
    seeds: Iterable[int] = range(2),
    operations: Iterable[int] = range(MOST_OPERATIONS),
) -> int:
    """Kill, and cut the power, at each operation of the scenario; the number of deaths.

    `operations` are those to die at, by default all. Raises AssertionError that names the death.
    """
    seeds = tuple(seeds)
    deaths = 0
    for number in operations:
        for way in (KILL, POWER, *seeds):
            if not _die(make(), number, way):
                return deaths
            deaths += 1
    return deaths


def _die(scenario: Scenario, operation: int, way: int) -> bool:
    """Run to one death and check; false when the scenario ended before it."""
    memory = MemoryDisk()
    disk = CrashingDisk(memory, operation, seed=way * 7919 + operation)
    ended = False
    try:
        scenario.run(disk)
        ended = True
    except Crashed:
        pass
    during = disk.log[operation] if operation < len(disk.log) else "the end"
    death = Death(operation=operation, way=way, during=during)
    vars(scenario)["killed"] = way == KILL
    rng = random.Random(way * 104729 + operation)
    _after(memory, way, rng)
    try:
        probe = CrashingDisk(memory, rng.randrange(40), seed=operation)
        try:
            scenario.check(probe)
        except Crashed:
            death = dataclasses.replace(death, during=f"{during}; then at {probe.log[-1]}")
            way = rng.choice((way, POWER, operation))
            vars(scenario)["killed"] &= way == KILL
            _after(memory, way, rng)
        scenario.check(memory)
    except Exception as error:
        raise AssertionError(f"{death}: {type(error).__name__}: {error}") from error
    return not ended


def _after(memory: MemoryDisk, way: int, rng: random.Random) -> None:
    if way != KILL:
        memory.crash(None if way == POWER else rng)


def sweep_files(make: Callable[[], Scenario], root: Path, *, stride: int = 1) -> int:
    """As `sweep`, over real files in fresh directories below `root`: kills only."""
    deaths = 0
    ended = False
    while not ended:
        operation = deaths * stride
        scenario = make()
        place = root / str(operation)
        place.mkdir()
        disk = CrashingDisk(LocalDisk(place), operation, seed=operation)
        try:
            scenario.run(disk)
            ended = True
        except Crashed:
            deaths += 1
        finally:
            disk.end()
        vars(scenario)["killed"] = True
        left = CrashingDisk(LocalDisk(place))
        try:
            scenario.check(left)
        except Exception as error:
            during = disk.log[min(operation, len(disk.log) - 1)]
            death = Death(operation=operation, way=KILL, during=during)
            raise AssertionError(f"{death}, in {place}: {error}") from error
        finally:
            left.end()
    return deaths


def main() -> None:
    """The long run: every scenario that is named, at every operation, with many seeds."""
    parser = argparse.ArgumentParser(description="Die at every storage operation in turn.")
    parser.add_argument("scenarios", nargs="+", metavar="MODULE:SCENARIO")
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--every", type=int, default=1, help="die at each n-th operation only")
    arguments = parser.parse_args()
    logging.disable(logging.CRITICAL)
    for name in arguments.scenarios:
        module, _, attribute = name.partition(":")
        make = getattr(importlib.import_module(module), attribute)
        gc.freeze()  # simulated worlds collect garbage often, and older objects are none
        operations = range(0, MOST_OPERATIONS, arguments.every)
        deaths = sweep(make, seeds=range(arguments.seeds), operations=operations)
        print(f"{name}: {deaths} deaths, every time right or refused", flush=True)


if __name__ == "__main__":
    # Scenarios import this module by its name: their `Crashed` must be the one that is raised.
    importlib.import_module("tests.tools.storage_crashes").main()
