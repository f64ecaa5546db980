"""Delayed packets and reset connections, with the standard library alone, for a quick start.

`netlink` speaks to the kernel, `scheduler` schedules packets, `packet_holder` delays them,
and `diagnosis` resets TCP connections. Which packets are affected is decided in `network`.
"""
