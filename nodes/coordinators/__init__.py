"""The coordinators of groups and of transactions: what they decide, and what they remember. Pure.

`machine` says what a coordinator is, `records` how its records look in an internal topic.
"""
