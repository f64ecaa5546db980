"""Assignors: pure functions that say which member gets which partition.

An assignor gets the members of a group and the number of partitions of each topic, and returns the
target assignment of every member. Its result is a function of its arguments. It gives every
partition of a subscribed topic to exactly one of the topic's subscribers. A topic that does not
exist (any more) is left out.
"""

from nodes.coordinators.groups.consumer.assignors.range import assign_ranges
from nodes.coordinators.groups.consumer.assignors.spec import Assignor
from nodes.coordinators.groups.consumer.assignors.uniform import assign_uniformly

ASSIGNORS: dict[str, Assignor] = {"uniform": assign_uniformly, "range": assign_ranges}
"""By the names that members and `group.consumer.assignors` use."""
