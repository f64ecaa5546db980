"""Clusters that people and tests break by hand: faults that are injected and healed on request.

`breaker` injects and heals, `keeper` and `for_tests` are the processes that hold a breaker, and
`protocol`, `server` and `client` are how others ask them. Only `client` and `protocol` are light.
"""
