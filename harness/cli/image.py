"""`highwater image`: what the containers of the Docker target are made from."""

from typing import Annotated

import typer

from harness.cli.base import Debug

image_app = typer.Typer(help="The image of the Docker target's nodes.", no_args_is_help=True)


@image_app.callback()
def _group() -> None:
    """A group, though it has one command."""


@image_app.command("build")
def build(
    base: Annotated[
        str | None,
        typer.Option(help="An image with Python in it that the daemon has, or can pull."),
    ] = None,
    debug: Debug = False,
) -> None:
    """Build the image that fits this harness, and print its name."""
    from harness.targets.docker import daemon, image

    address = daemon.chosen()
    daemon.check(address)
    print(image.build(address, base or image.DEFAULT_BASE))
