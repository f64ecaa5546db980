"""What becomes of a verdict when a run's evidence is removed, changed or contradicts itself.

`runs` makes two runs, one whose contract was kept and one whose contract was broken; `changes` has
the ways to tamper with the directory of a run; the test judges both runs after each of them.
"""
