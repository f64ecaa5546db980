"""Groups, copies and transactions with libraries whose calls block, each client in a thread.

A library gives the parts in `library.Library`, and has a folder of its own beside this one.
"""
