"""The transaction coordinator: who may write in which transaction, and how each one ends. Pure.

`coordinator` is the machine, `state` what it knows of one transactional id, `records` the bytes.
"""
