"""Administering any Kafka cluster over its own protocol, from outside.

`client` finds brokers, agrees on versions, retries what passes and gives up at a bound; `topics`,
`configs`, `reassignments` and `inspection` are the requests, one function each; `model` is what
they answer. `balance` plans where replicas should be, `throttles` and `files` are Kafka's formats
of limits and of JSON files, `text` its tools' output: all four pure. Nothing here knows whose
broker it talks to.
"""
