"""The nodes' wall clocks, to be set apart."""


class LocalClocks:
    """See `nemesis.hosts.Clocks`."""
