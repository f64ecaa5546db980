"""`highwater image`: builds the image of the Docker target's containers."""

from typing import Annotated

import typer

from harness.cli.options import Debug, command_group

image_app = command_group("Build the image of the Docker target's containers.")


@image_app.callback()
def _group() -> None:
    """Make `image` a group although it has only one command."""


@image_app.command("build")
def build(
    base: Annotated[
        str | None,
        typer.Option(
            help="A base image with Python that the Docker daemon has or can pull. Default: "
            "python:VERSION-slim of this Python."
        ),
    ] = None,
    debug: Debug = False,
) -> None:
    """Build the image for this version of highwater and print its name."""
    from harness.targets.docker import daemon, image

    address = daemon.chosen()
    daemon.check(address)
    print(image.build(address, base or image.DEFAULT_BASE))
