"""How well broken brokers are found: by a schedule made for each, and by chance.

    exhibit   a broken broker, and the schedules that show it; who has them
    trials    each of them: scripted in simulated worlds or with real processes, and at random
    record    what was found of each, as a table

The broken brokers are somebody else's: nothing here knows one by its name.
"""
