"""A suite of runs every night: seeds that are new, one clear answer in the morning.

    suite       what is run: cells, canaries, known failures, budget, retention      (TOML)
    cells       the suite's matrix as cells, and a cell as a command line             (pure)
    results     what became of a trial, of a cell and of a night                      (pure)
    order       which trial comes next within the budget                              (pure)
    night       a night on disk: its trials and results, so that it can be resumed
    running     trials as processes, some at a time, until the budget is over
    junit markdown trend prometheus webhook    a night told to others
    telling     all of these, again after every trial
    retention   which runs are kept for how long
    conduct     a night from its first trial to its exit code

A violation is never tried again: what was seen once has happened.
"""
