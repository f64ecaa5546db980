"""An oracle of causes: a simulated world knows what became of each record, and the checkers, which
see only what was recorded of the run, are compared with it.

witness     looks on while a run goes on, and changes nothing
truth       says of an acknowledged write that is lost what took it, by what was witnessed  (pure)
comparing   lays the checkers' cause of every lost write beside that

`python -m tests.tools.cause_oracle --seeds 1..500` prints how often they agree.
"""
