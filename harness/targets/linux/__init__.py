"""What Linux lets one break about a machine, and how each of it is undone.

Network namespaces, packet rules, loop-mounted disks, wall clocks, processes: kernel objects, each
journalled before it is made. A target composes them into machines; this package knows of no plan.
"""
