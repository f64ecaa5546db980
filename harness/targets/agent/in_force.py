"""What is in force on a machine, as the calls that make it again when the machine has booted.

Only what outlives a boot as far as a run is concerned: the network's faults, the clock's, a disk
that is slow or full, and the command that `start` runs. A stalled disk works again after a boot, as
it does when its node is killed; one that fails is repaired by it.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from harness.targets.agent.machine import Machine
from nemesis.hosts import Clocks, Disks, Links

Method = Callable[..., Any]


class Call(NamedTuple):
    """A call of a protocol's method on the machine."""

    method: Method
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] = {}


class Standing:
    """The calls of one machine that are in force, in the order in which they were first made."""

    def __init__(self) -> None:
        self._calls: dict[Hashable, Call] = {}

    def note(self, call: Call) -> None:
        """Such a call is made: it puts something in force, or ends it, or does neither."""
        if call.method in _MAKE:
            self._calls.update(_MAKE[call.method](call))
        elif call.method in _END:
            for key in _END[call.method](call):
                self._calls.pop(key, None)

    def calls(self) -> Sequence[Call]:
        """What is to be done again."""
        return tuple(self._calls.values())


Making = Iterator[tuple[Hashable, Call]]


def _cuts(call: Call) -> Making:
    return ((("cut", cut), Call(call.method, (cut,))) for cut in call.args)


def _qualities(call: Call) -> Making:
    links, quality, layer = call.args
    return (
        (("quality", tuple(link), layer), Call(call.method, ([link], quality, layer)))
        for link in links
    )


def _clock(call: Call) -> Making:
    yield ("clock", call.args[1]), call


def _one(name: str) -> Callable[[Call], Making]:
    def made(call: Call) -> Making:
        yield name, call

    return made


def _ends(name: str) -> Callable[[Call], Iterator[Hashable]]:
    def ended(call: Call) -> Iterator[Hashable]:
        yield name

    return ended


_MAKE: Final[Mapping[Method, Callable[[Call], Making]]] = {
    Machine.set_command: _one("command"),
    Links.block: _cuts,
    Links.degrade: _qualities,
    Clocks.skew: _clock,
    Disks.limit: _one("limit"),
    Disks.fill: _one("fill"),
}
_END: Final[Mapping[Method, Callable[[Call], Iterator[Hashable]]]] = {
    Links.unblock: lambda call: (("cut", cut) for cut in call.args),
    Links.restore: lambda call: (("quality", tuple(link), call.args[1]) for link in call.args[0]),
    Clocks.unskew: lambda call: iter([("clock", call.args[1])]),
    Disks.unlimit: _ends("limit"),
    Disks.drain: _ends("fill"),
}
