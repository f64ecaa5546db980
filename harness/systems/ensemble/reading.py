"""Reads single znodes of an ensemble, for callers that watch nothing."""

from collections.abc import Mapping
from typing import Any, Final

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

from harness.systems.ensemble.probe import Address
from harness.systems.ensemble.watch import quiet
from harness.systems.ensemble.znodes import CONTROLLER, ZnodeError, read_controller

CONNECT_S: Final = 10.0


def active_controller(addresses: Mapping[int, Address]) -> int | None:
    """Return the broker that /controller names; None when there is none or nobody answers."""
    servers = ",".join(f"{host}:{port}" for host, port in addresses.values())
    client: Any = KazooClient(servers, logger=quiet)
    try:
        client.start(timeout=CONNECT_S)
        return read_controller(client.get(CONTROLLER)[0])
    except (NoNodeError, KazooException, KazooTimeoutError, ZnodeError):
        return None
    finally:
        client.stop()
        client.close()
