"""The faults in force on a machine, as calls that make them again after the machine's boot.

They are the faults of the network and of the clock, a slow or a full disk, and the command that
`start` runs. A stalled disk works again after a boot, as it does when its node is killed. A boot
repairs a failing disk.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from harness.targets.agent.machine import Machine
from nemesis.hosts import Clocks, Disks, Links

Method = Callable[..., Any]


class Call(NamedTuple):
    """A call of a protocol's method."""

    method: Method
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] = {}


class CallsInForce:
    """The calls in force on one machine, in the order in which they were first made."""

    def __init__(self) -> None:
        self._calls: dict[Hashable, Call] = {}

    def update(self, call: Call) -> None:
        """Add a call that starts a fault, remove the call that this one ends; ignore others."""
        if call.method in _MAKE:
            self._calls.update(_MAKE[call.method](call))
        elif call.method in _END:
            for key in _END[call.method](call):
                self._calls.pop(key, None)

    def calls(self) -> Sequence[Call]:
        """Return the calls to repeat after a boot."""
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
