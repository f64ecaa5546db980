"""The run store as web pages, to be looked at and never changed.

    vault       the store's files, of which nothing outside it can be reached
    paths       an address as a page and a place in the store                      (pure)
    summaries   what a run's own files say of it, short                            (pure)
    catalogue   all runs of the store, remembered until their files change
    choosing    search, filter, order, pages, and the trend of each plan           (pure)
    comparing   two runs side by side                                              (pure)
    tailing     the rows that were added to a stream since the last look
    live        what a run that goes on shows by now
    archive     a run as a zip file, made while it is sent
    answers     status, headers and body of what is sent, and the rules of safety  (pure)
    pages       data as HTML
    desk        a request in, an answer out
    heads       requests, read from many slow clients at once
    server      sockets and threads around the desk

Guarantees: GET and HEAD alone, and no file is opened for writing; no link is followed, whoever made
it; every text that came from a run is escaped, and pages that runs made themselves are shown in a
sandbox; whatever is missing or damaged is a sentence with the right status, never a traceback.
Secrets are taken out of what pages show, and not out of the files that are handed over. Nobody is
asked who they are: it listens on 127.0.0.1 unless told otherwise.
"""
