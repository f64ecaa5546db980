"""Runs plans in a simulated world: the run of `harness.run.runner` without machines, and many of
them. The checkers judge a simulated run as they judge any other; nothing here knows what a plan's
faults do.

    run        carries out one plan in one world
    recording  what a run recorded, in memory or as a run directory
    screen     finds most recordings clean without the checkers
    swarm      draws plans from seeds
    campaign   runs many seeds in processes; summary reports them
    coverage   counts the situations that seeds reached
    invariants checks the nodes' own state after each event
    shrinking  reduces a failing plan
    diagram    draws a failing run
    world      the simulated world itself
"""
