"""Clients that are programs in any language: highwater decides, the program executes.

A program speaks lines of JSON on its standard streams (`protocol`, docs/clients-protocol.md), and
runs any number of clients, each in a thread of its own. `process` starts and ends it.
"""
