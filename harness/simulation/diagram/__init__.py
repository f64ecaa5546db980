"""The space-time diagram of a failing simulated run: messages between machines, faults, and what
went wrong. It explains one run; it judges nothing.

    capture    records the network during the run, and splits the bytes into frames
    messages   decodes frames as Kafka requests and responses, with the broker's own codec
    captions   the essential fields of a message, in a few words
    events     faults, kills, roles, and the finding to explain
    selection  the messages that mattered                     (pure)
    layout     where everything lies on the page              (pure)
    page       one HTML file that needs nothing else
    make       repeats a run, records it, and makes the page
"""
