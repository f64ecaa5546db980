"""Runs a suite of plans within a time budget, with new seeds each night, and publishes the results.
What one run does and how it is judged is left to `highwater run`, `simulate` and `check`.

    suite       the suite file: cells, canaries, known violations, budget, retention  (TOML)
    cells       the cells of a suite, and a cell's command line                       (pure)
    results     the outcome of a trial, of a cell and of a night                      (pure)
    order       which trial starts next within the budget                             (pure)
    night       one night on disk: its trials and results, so that it can be resumed
    trials      trials as processes, several at a time, until the budget is spent
    trial_output    the verdict, messages and run that a trial's process left
    junit markdown prometheus trend webhook     the results in five forms
    publish     writes these files again after every trial
    retention   how long runs are kept
    run_night   one night from its first trial to its exit code

A trial that found a violation is never repeated: the violation has happened.
"""
