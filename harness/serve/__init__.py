"""Shows the run store as web pages. It never changes a file, and leaves running and judging to
others.

    store_files  the files of the store; nothing outside it can be opened
    paths        an address as a page and a place in the store                      (pure)
    summaries    a run in short, from its own files                                 (pure)
    catalogue    all runs of the store, cached until their files change
    filters      search, filters, order, pages, and the trends                      (pure)
    comparison   two runs side by side                                              (pure)
    live         the present state of a run that goes on
    nights       the nights of the store's suites
    archive      a run as a zip file, made while it is sent
    responses    status, headers and body of a response, and the safety headers     (pure)
    pages        data as HTML
    handlers     from a request to its response
    request_heads   reads requests of many slow clients at once
    server       sockets and threads

Guarantees: GET and HEAD alone; no file is opened for writing; no link is followed, whoever made it.
Every text of a run is escaped, and pages that runs made themselves are shown in a sandbox. Missing
or damaged files give a sentence with the right status, never a traceback. Secrets are removed from
pages, but not from the files that are downloaded. There are no passwords: the server listens on
127.0.0.1 unless it is told another address.
"""
