"""What is done to packets on their way, with nothing but the standard library.

`netlink` speaks to the kernel; `wire` decides when a held packet may go on; `holding` is the
process that holds them, started for a machine while one of its links is slow.
"""
