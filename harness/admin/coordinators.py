"""Finds the coordinators of groups and transactions, and asks them (FindCoordinator, KIP-699).

No coordinator is remembered: every attempt finds it again. So after NOT_COORDINATOR the same
question goes to the broker that has become the coordinator.
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple, TypeVar

from harness.admin.client import Address, AdminClient
from harness.admin.codes import check
from harness.admin.errors import BadRequest

T = TypeVar("T")

MAX_KEYS: Final = 500
"""The most groups or transactional ids in one request; brokers limit its size."""
_MANY_KEYS_SINCE: Final = 4


class KeyType(IntEnum):
    """What is coordinated; Kafka's numbers."""

    group = 0
    transaction = 1


class Coordinator(NamedTuple):
    """The broker that coordinates a group or a transactional id."""

    node_id: int
    host: str
    port: int

    @property
    def address(self) -> Address:
        """Where it is asked."""
        return self.host, self.port


async def find(
    admin: AdminClient, kind: KeyType, keys: Sequence[str]
) -> dict[Coordinator, list[str]]:
    """Return the keys of each coordinator.

    Raises TransientError while a key has none, RequestRefused, Unreachable, and BadRequest when the
    cluster is older than Kafka 3.0.
    """
    found: dict[Coordinator, list[str]] = defaultdict(list)
    for some in _parts(keys):
        answer = await admin.request(
            "find_coordinator", at_least=_MANY_KEYS_SINCE, key_type=kind, coordinator_keys=some
        )
        for each in answer.coordinators:
            check(each.error_code, f"{kind.name} {each.key}", each.error_message)
            coordinator = Coordinator(int(each.node_id), str(each.host), int(each.port))
            found[coordinator].append(str(each.key))
    return found


async def ask_each(
    admin: AdminClient,
    kind: KeyType,
    keys: Sequence[str],
    ask: Callable[[Coordinator, Sequence[str]], Awaitable[Mapping[str, T]]],
) -> dict[str, T]:
    """Return what `ask` returns for each key, in the order of `keys`.

    `ask` gets a coordinator and some of its keys. After a TransientError or Unreachable of `ask`,
    only the keys that have no result yet are asked for again.
    """
    done: dict[str, T] = {}

    async def attempt() -> None:
        left = [key for key in keys if key not in done]
        for coordinator, own in (await find(admin, kind, left)).items():
            for some in _parts(own):
                done.update(await ask(coordinator, some))

    if keys:
        await admin.repeat(attempt)
    if missing := [key for key in keys if key not in done]:
        raise BadRequest(f"{kind.name} {missing[0]}: the cluster's answer leaves it out")
    return {key: done[key] for key in keys}


def _parts(keys: Sequence[str]) -> list[Sequence[str]]:
    return [keys[start : start + MAX_KEYS] for start in range(0, len(keys), MAX_KEYS)]
