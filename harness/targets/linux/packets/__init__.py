"""Delayed packets and reset connections, with the standard library alone, for a quick start.

`netlink` speaks to the kernel, `wire` schedules packets, `holding` is the process that delays them,
and `diagnosis` resets TCP connections. Which packets are affected is decided in `network`.
"""
