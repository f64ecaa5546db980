"""The command line's larger groups of commands, one module for each; `harness.cli.main` mounts
them."""
