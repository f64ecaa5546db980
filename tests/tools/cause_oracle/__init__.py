"""An oracle of causes: the simulated world knows how each write was lost. The causes that the
checkers find, which see only the recorded run, are compared with it.

witness     observes a run and changes nothing
truth       finds how an acknowledged write was lost, from the observations  (pure)
comparing   compares the checkers' cause of every lost write with the truth

`python -m tests.tools.cause_oracle --seeds 1..500` prints how often they agree.
"""
