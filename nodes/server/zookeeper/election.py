"""The election of the controller: whoever creates /controller, which ends with its session.

The same write raises /controller_epoch, whose version is then the condition of everything that this
controller writes.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from nodes.ids import NodeId
from nodes.server.zookeeper.client import RETRY_S, ZooKeeper, again, ensure
from nodes.zookeeper import paths, znodes
from nodes.zookeeper.operations import (
    BadVersion,
    ConnectionLost,
    Create,
    NodeExists,
    NoNode,
    SetData,
)

log = logging.getLogger("nodes.zookeeper")


class Term(Protocol):
    """This node is the controller of one epoch."""

    @property
    def epoch(self) -> int:
        """The controller epoch."""
        ...

    def start(self) -> None:
        """Take over."""
        ...

    def close(self) -> None:
        """The term is over."""
        ...


class Election:
    """See the module. `make_term` gets the epoch and the version of /controller_epoch."""

    def __init__(
        self,
        node_id: NodeId,
        zookeeper: ZooKeeper,
        wall_clock_ms: Callable[[], int],
        make_term: Callable[[int, int], Term],
    ) -> None:
        self._node_id = node_id
        self._zookeeper = zookeeper
        self._wall_clock_ms = wall_clock_ms
        self._make_term = make_term
        self._term: Term | None = None
        self._woken = asyncio.Event()
        self.controller_id: NodeId | None = None
        """The controller as this node has read it last."""

    async def run(self) -> None:
        """Be elected whenever there is no controller, until the session ends.

        Raises SessionExpired.
        """
        while True:
            self._woken.clear()
            owner = await self._controller()
            ours = owner == self._zookeeper.session_id and self.controller_id == self._node_id
            if self._term is not None and not ours:
                log.info("the controller is %s", self.controller_id)
                self.resign()
            if owner is None:
                await self._stand()
                continue
            if ours and self._term is None:
                # It was elected by a write whose answer was lost, or failed in its term.
                await self._give_up()
                continue
            await self._woken.wait()

    async def _controller(self) -> int | None:
        """The session of the controller; None if there is none. A change wakes `run`."""
        while True:
            try:
                data, stat = await again(
                    lambda: self._zookeeper.get(paths.CONTROLLER, self._woken.set)
                )
            except NoNode:
                self.controller_id = None
                found = await again(
                    lambda: self._zookeeper.exists(paths.CONTROLLER, self._woken.set)
                )
                if found is None:
                    return None
                continue
            self.controller_id = znodes.read_controller(data)
            return stat.owner

    async def _stand(self) -> None:
        await ensure(self._zookeeper, paths.CONTROLLER_EPOCH, znodes.controller_epoch(0))
        data, stat = await again(lambda: self._zookeeper.get(paths.CONTROLLER_EPOCH))
        epoch = znodes.read_controller_epoch(data) + 1
        content = znodes.controller(self._node_id, self._wall_clock_ms())
        try:
            _, raised = await self._zookeeper.multi(
                (
                    Create(paths.CONTROLLER, content, ephemeral=True),
                    SetData(paths.CONTROLLER_EPOCH, znodes.controller_epoch(epoch), stat.version),
                )
            )
        except (NodeExists, BadVersion, ConnectionLost):
            await asyncio.sleep(RETRY_S)
            return
        assert raised is not None
        log.info("elected as the controller of epoch %d", epoch)
        self.controller_id = self._node_id
        self._term = self._make_term(epoch, raised.version)
        self._term.start()

    async def _give_up(self) -> None:
        """Remove our own /controller, so that there is an election."""
        try:
            await again(lambda: self._zookeeper.delete(paths.CONTROLLER))
        except NoNode:
            return

    def deposed(self) -> None:
        """The term has found that it is over."""
        self.resign()
        self._woken.set()

    def resign(self) -> None:
        """End the term, if there is one."""
        if self._term is not None:
            log.info("resigned as the controller of epoch %d", self._term.epoch)
            self._term.close()
            self._term = None
