"""Faults of a cluster for tests: injected, proved, and healed whatever happens."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from highwater._errors import FaultFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

    Ask = Callable[..., Any]


class FaultInForce:
    """A fault in force. As a context manager it is healed at the end of the block.

    Example:
        >>> with CLUSTER.faults.pause("node:1") as fault:
        ...     fault.name, fault.nodes, fault.in_force
        ('pause', (1,), True)
        >>> fault.in_force
        False
    """

    def __init__(self, ask: Ask, row: Mapping[str, Any], *, prove: bool, began_s: float) -> None:
        self._ask = ask
        self._row = row
        self._prove = prove
        self._began_s = began_s
        self._injected_s = time.monotonic()
        self._healed_s: float | None = None

    @property
    def name(self) -> str:
        """The name of the fault, such as `partition.isolate-one`.

        Example:
            >>> with CLUSTER.faults.kill("node:1") as fault:
            ...     fault.name
            'kill'
        """
        return str(self._row["fault"])

    @property
    def label(self) -> str:
        """What was done, and to which nodes.

        Example:
            >>> with CLUSTER.faults.pause("node:2") as fault:
            ...     fault.label
            'pause node 2'
        """
        return str(self._row["label"])

    @property
    def nodes(self) -> tuple[int, ...]:
        """The nodes that the fault hits.

        Example:
            >>> with CLUSTER.faults.pause("nodes:1,2") as fault:
            ...     fault.nodes
            (1, 2)
        """
        return tuple(self._row.get("nodes", ()))

    @property
    def effect(self) -> str | None:
        """The measured proof of its effect; None before there is one.

        Example:
            >>> with CLUSTER.faults.kill("node:3") as fault:
            ...     fault.effect
            'process of node 3 gone'
        """
        return self._row["effect"] if self._row.get("effective") else None

    @property
    def in_force(self) -> bool:
        """Whether the fault is not healed yet.

        Example:
            >>> with CLUSTER.faults.pause() as fault:
            ...     fault.in_force
            True
        """
        return self._healed_s is None

    def heal(self) -> None:
        """Heal the fault, and check that it had an effect. A second call does nothing.

        Raises FaultFailed when the fault cannot be healed, or never had a measured effect.

        Example:
            >>> fault = CLUSTER.faults.pause("node:1")
            >>> fault.heal()
            >>> fault.in_force
            False
        """
        __tracebackhide__ = True
        if self._healed_s is not None:
            return
        self._row = {**self._row, **self._ask("heal", id=self._row["id"])}
        self._healed_s = time.monotonic()
        if self._prove and not self._row.get("effective"):
            raise FaultFailed(
                f"{self.label} had no effect: {self._row.get('effect') or 'nothing was measured'}. "
                "A fault of links needs traffic on them while it is in force"
            )

    def __enter__(self) -> FaultInForce:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        __tracebackhide__ = True
        try:
            self.heal()
        except FaultFailed as failed:
            if error is None:
                raise
            error.add_note(f"highwater: {failed}")

    def __str__(self) -> str:
        began_s = self._injected_s - self._began_s
        text = f"fault {self._row['id']}: {self.label}, from {began_s:.1f} s"
        if self._healed_s is not None:
            text += f" to {self._healed_s - self._began_s:.1f} s"
        return f"{text}; {self._row.get('effect') or 'no effect measured'}"

    def __repr__(self) -> str:
        return f"<{self}>"


class Faults:
    """Breaks a cluster. Every method returns a fault in force, which `with` heals at its end.

    Targets are selectors: `node:2`, `leader:orders/0`, `followers:orders/0`, `controller`, `one`,
    `group-coordinator:readers`, ... (docs/faults.md has them all). The effect of every fault is
    measured; a fault without an effect is an error, because the test would prove nothing.

    Example:
        >>> with CLUSTER.faults.partition("leader:orders/0"):
        ...     pass  # the leader is cut off from the other nodes, but not from clients
        >>> CLUSTER.faults.in_force
        ()
    """

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._began_s = time.monotonic()
        self._all: list[FaultInForce] = []

    def partition(self, targets: str = "leader") -> FaultInForce:
        """Cut nodes off from all other nodes, but not from clients.

        Example:
            >>> with CLUSTER.faults.partition("leader:orders/0") as fault:
            ...     fault.name
            'partition.isolate-one'
        """
        __tracebackhide__ = True
        return self.inject("partition.isolate-one", targets)

    def cut_clients(self, targets: str = "leader") -> FaultInForce:
        """Cut nodes off from clients, but not from other nodes.

        Example:
            >>> with CLUSTER.faults.cut_clients("leader:orders/0") as fault:
            ...     CLUSTER.produce("orders", [b"late"], timeout_s=1)
            []
        """
        __tracebackhide__ = True
        return self.inject("cut.clients", targets)

    def kill(self, targets: str = "leader") -> FaultInForce:
        """Kill nodes with SIGKILL; they are started again at the heal.

        Example:
            >>> with CLUSTER.faults.kill("controller"):
            ...     pass
        """
        __tracebackhide__ = True
        return self.inject("kill", targets)

    def pause(self, targets: str = "leader") -> FaultInForce:
        """Stop nodes with SIGSTOP, as a long garbage collection does; they go on at the heal.

        Example:
            >>> with CLUSTER.faults.pause("one"):
            ...     pass
        """
        __tracebackhide__ = True
        return self.inject("pause", targets)

    def inject(
        self,
        name: str,
        targets: str = "",
        *,
        prove: bool = True,
        prove_s: float = 5.0,
        **params: object,
    ) -> FaultInForce:
        """Inject any fault of the catalogue (`highwater faults`), with its parameters.

        It waits up to `prove_s` seconds for the proof of the effect. With `prove`, the heal raises
        FaultFailed if the fault never had an effect. Raises FaultFailed when nothing is injected.

        Example:
            >>> with CLUSTER.faults.inject("link.slow", "node:1", delay_ms=50) as fault:
            ...     fault.label
            'link.slow node 1'
        """
        __tracebackhide__ = True  # pytest shows the line of the test
        written = {key: str(value) for key, value in params.items()}
        row = self._ask("inject", fault=name, targets=targets, params=written, prove_s=prove_s)
        self._all.append(FaultInForce(self._ask, row, prove=prove, began_s=self._began_s))
        return self._all[-1]

    def heal_all(self) -> None:
        """Heal every fault in force, the latest first. Raises FaultFailed after all were tried.

        Example:
            >>> fault = CLUSTER.faults.pause("node:1")
            >>> CLUSTER.faults.heal_all()
            >>> fault.in_force
            False
        """
        failures = []
        for fault in reversed(self.in_force):
            try:
                fault.heal()
            except FaultFailed as failed:
                failures.append(str(failed))
        if failures:
            raise FaultFailed("; ".join(failures))

    @property
    def in_force(self) -> tuple[FaultInForce, ...]:
        """The faults in force.

        Example:
            >>> CLUSTER.faults.in_force
            ()
        """
        return tuple(each for each in self._all if each.in_force)

    @property
    def injected(self) -> tuple[FaultInForce, ...]:
        """All faults so far, healed or not.

        Example:
            >>> all(str(fault).startswith("fault ") for fault in CLUSTER.faults.injected)
            True
        """
        return tuple(self._all)
