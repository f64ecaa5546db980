"""The files of a run: its directory, the tables of its history, and its journal.

How they are judged is left to `harness.judging` and `checkers`.
"""
