"""The nodes' disks on Linux: loop-mounted volumes, and the faults of disks and files.

Which fault hits which node, and when, is decided by the nemesis.
"""
