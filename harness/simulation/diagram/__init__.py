"""The space-time diagram of a simulated run: who told whom what, and what came of it.

tap        looks on while the run goes on, and cuts what it saw into frames
messages   frames as requests and responses of Kafka's, decoded by the broker's own codec
saying     what is essential in a message, in a few words
incidents  faults, kills, roles, and what the run is to be blamed for
selection  which messages mattered                                        (pure)
layout     where everything lies on the page                              (pure)
page       one HTML file that needs nothing else
showing    runs a plan once more, looked at, and makes the page
"""
