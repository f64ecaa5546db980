"""`highwater serve`: the run store as web pages, to be looked at and never changed."""

import threading
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.base import Debug, Store, on_signals, warn


def serve(
    store: Store = Path("store"),
    host: Annotated[
        str, typer.Option(help="The address to listen on; others than this machine's are seen.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 is any that is free.")] = 8086,
    allow_host: Annotated[
        list[str] | None, typer.Option(help="A name by which browsers may ask for this server.")
    ] = None,
    debug: Debug = False,
) -> None:
    """Show the run store in a browser: runs, verdicts, logs, comparisons, runs that go on."""
    import logging

    from harness.recording.store import StoreError
    from harness.serve.handlers import Desk, opened
    from harness.serve.server import Server

    logging.basicConfig(
        level=logging.DEBUG if debug else logging.ERROR, format="highwater: %(message)s"
    )
    names = frozenset(name.lower().rstrip(".") for name in (host, *(allow_host or ())))
    with opened(store) as vault:
        try:
            server = Server(Desk(vault, names=names), host, port)
        except OSError as error:
            raise StoreError(
                f"cannot listen on {host} port {port} ({error.strerror}); give another --port"
            ) from error
        with server:
            shown = f"[{host}]" if ":" in host else host
            warn(f"{vault.root} is shown at http://{shown}:{server.server_port}/ until Ctrl-C")
            if not _is_here(server.server_name):
                warn("whoever reaches this address can read every run; there is no password")
            on_signals(lambda: threading.Thread(target=server.shutdown, daemon=True).start())
            server.serve_forever(poll_interval=0.2)


def _is_here(address: str) -> bool:
    """Whether nobody but this machine can reach it."""
    return address == "::1" or address.startswith("127.")
