"""The zoo: brokers that are broken on purpose, and trials of whether they are caught.

The nodes, the faults, the checkers and the rest of the harness do not know the mutants. A mutant's
module name (`isr_of_one`) is its only name: its schedule and its scenario are found by that name.

    mutants       the broken brokers; each module overrides one decision of the built-in broker
    scenarios     plans that show a mutant on every target
    exactly_once  the program of the scenarios that test one, which need real processes
    schedules     scripts that show a mutant in a simulated cluster, message by message
    entry         one mutant with its schedule and its scenario
    entries       all entries
    trials        runs of one entry: by its schedule, with random seeds, and with real processes
    track_record  the results of the trials as a table
"""
