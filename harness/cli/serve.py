"""`highwater serve`: shows the run store in a browser, read-only."""

import threading
from typing import Annotated

import typer

from harness.cli.base import on_signals, warn
from harness.cli.options import DEFAULT_STORE, Debug, Store


def serve(
    store: Store = DEFAULT_STORE,
    host: Annotated[
        str,
        typer.Option(
            help="The address to listen on. An address other than 127.0.0.1 lets other machines "
            "read every run; there is no password."
        ),
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="The port to listen on; 0 is any free port.")
    ] = 8086,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(help="A further host name that browsers may use for this server. Repeatable."),
    ] = None,
    debug: Debug = False,
) -> None:
    """Show the run store in a browser.

    The pages show runs with their verdicts and logs, comparisons, and the progress of running runs.
    """
    import logging

    from harness.recording.store import StoreError
    from harness.serve.handlers import RequestHandler, opened
    from harness.serve.server import Server

    logging.basicConfig(
        level=logging.DEBUG if debug else logging.ERROR, format="highwater: %(message)s"
    )
    names = frozenset(name.lower().rstrip(".") for name in (host, *(allow_host or ())))
    with opened(store) as store_files:
        try:
            server = Server(RequestHandler(store_files, names=names), host, port)
        except OSError as error:
            raise StoreError(
                f"cannot listen on {host} port {port} ({error.strerror}); give another --port"
            ) from error
        with server:
            shown = f"[{host}]" if ":" in host else host
            warn(
                f"{store_files.root} is shown at http://{shown}:{server.server_port}/ until Ctrl-C"
            )
            if not _is_here(server.server_name):
                warn("every machine that reaches this address can read every run; no password")
            on_signals(lambda: threading.Thread(target=server.shutdown, daemon=True).start())
            server.serve_forever(poll_interval=0.2)


def _is_here(address: str) -> bool:
    """Return whether only this machine can reach the address."""
    return address == "::1" or address.startswith("127.")
