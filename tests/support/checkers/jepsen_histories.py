"""Histories of Jepsen's Kafka workload, told in a few lines each."""

from checkers.interchange.imported import Imported, Promises
from checkers.interchange.jepsen_import import to_history
from checkers.interchange.jepsen_ops import Notation, Op, read

PROMISED = Promises()


class Told:
    """A history in the making: each operation takes 1 µs, one after the other."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def op(self, process: int, f: str, invoked: str, completed: str, type_: str = "ok") -> "Told":
        """An operation, given its values in EDN."""
        for kind, value in (("invoke", invoked), (type_, completed)):
            at = len(self.lines) * 1_000
            self.lines.append(
                f"{{:index {len(self.lines)}, :time {at}, :process {process}, :type :{kind}, "
                f":f :{f}, :value {value}}}"
            )
        return self

    def send(self, process: int, key: int, value: int, offset: int | None = None) -> "Told":
        """A send; without an offset nobody knows what became of it."""
        done = f"[[:send {key} [{offset} {value}]]]" if offset is not None else None
        bare = f"[[:send {key} {value}]]"
        return self.op(process, "send", bare, done or bare, "ok" if done else "info")

    def poll(self, process: int, polled: str, type_: str = "ok") -> "Told":
        """A poll that returns {key [[offset value] …]}."""
        return self.op(process, "poll", "[[:poll]]", f"[[:poll {polled}]]", type_)

    def assign(self, process: int, keys: str, f: str = "assign") -> "Told":
        """An assignment, or a subscription."""
        return self.op(process, f, keys, keys)

    def txn(self, process: int, invoked: str, completed: str, type_: str = "ok") -> "Told":
        """A transaction of sends and polls."""
        return self.op(process, "txn", invoked, completed, type_)

    def ops(self) -> list[Op]:
        """What Jepsen's file says."""
        return read("\n".join(self.lines), Notation.EDN)

    def imported(self, promises: Promises = PROMISED, topic: str = "jepsen") -> Imported:
        """The history, taken over."""
        return to_history(self.ops(), topic=topic, promises=promises, files=["history.edn"])
