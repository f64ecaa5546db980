"""Machines that a hypervisor takes off and on, without any."""

from collections.abc import Callable, Sequence

from nemesis.hosts import Boot


class FakePower:
    """Plugs as a set; every boot has another id, unless the machines only pretend."""

    def __init__(self, did: Callable[..., None], states: dict[int, str]) -> None:
        """`did` notes a call, and raises for one that fails; `states` are the processes'."""
        self._did = did
        self._states = states
        self.off: set[int] = set()
        self.pretends = False
        self.loses: dict[str, int] = {}
        self._boots: dict[int, Boot] = {}

    def cut(self, nodes: Sequence[int]) -> float:
        """Noted; no process is left."""
        self._did("cut", *nodes)
        self.off |= set(nodes)
        self._states.update(dict.fromkeys(nodes, ""))
        return 3.0

    def is_off(self, node: int) -> bool:
        """Whether it is."""
        return node in self.off

    def restore(self, nodes: Sequence[int]) -> None:
        """Noted; those without power boot."""
        self._did("restore", *nodes)
        for node in self.off & set(nodes):
            after = "aaaaaaaaaaa" if self.pretends else "bbbbbbbbbbb"
            self._boots[node] = Boot("aaaaaaaaaaa", after, 20.0, 25.0, self.loses)
        self.off -= set(nodes)

    def boot(self, node: int) -> Boot | None:
        """As made up."""
        return self._boots.get(node)
