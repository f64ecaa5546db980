"""The disk interface of the broker, with real files and with a disk in memory that can lose power.

What a file means is decided by the callers.
"""
