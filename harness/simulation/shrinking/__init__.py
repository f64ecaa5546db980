"""Reduces a failing plan to the shortest schedule, smallest cluster and smallest workload that fail
the same way. How a plan is run and judged is decided elsewhere.

    steps     what can be left out of a plan, or made smaller      (pure)
    trial     whether a plan fails
    search    finds by running which parts can be left out
    scenario  the result as a file for every target
"""
