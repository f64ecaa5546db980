"""`python -m harness.cli`: the command line without an installed `highwater`."""

from harness.cli.main import main

main()
