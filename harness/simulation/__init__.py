"""Plans in a simulated world: the run of `harness.run.runner` without machines, and many of them.

`run` carries out one plan in one world; `recording` is what it saw, in memory or as a run directory
that is judged as any other; `screen` tells at once of most recordings that nothing is wrong;
`swarm` draws plans from seeds; `campaign` runs seeds in processes; `coverage` counts what they met.
"""
