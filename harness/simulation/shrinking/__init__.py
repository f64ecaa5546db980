"""The shortest schedule and the smallest cluster and workload that still fail the same way.

steps     what could be left out of a plan, or made smaller      (pure)
trial     whether a plan fails
search    which of it can be, found by running
scenario  the result as a file that every target takes
"""
