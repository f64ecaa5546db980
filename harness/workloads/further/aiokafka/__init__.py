"""Groups, copies and transactions with aiokafka, as a client program.

`program` reads commands as every client program does (`harness.workloads.clients.program`).
`consuming` and `producing` have its clients, and `client` what both share.
"""
