"""Machines and faults on Linux: namespaces, packet rules, loop-mounted disks, clocks, processes.

Each kernel object is journalled before it is made, so that `clean` can undo it. Targets combine
these parts into machines; plans and schedules are decided elsewhere.
"""
