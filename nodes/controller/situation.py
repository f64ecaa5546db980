"""The input and the output of a controller operation. Pure.

An administrative operation is a function of a ControllerState and a request; it returns a
ControllerResult, or raises ControlError to refuse the whole request. It changes nothing. The caller
appends the records and responds after their commit.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from nodes.controller.elections import PolicyOf, TopicPolicy
from nodes.controller.settings import ControlSettings
from nodes.metadata.image import ClusterImage
from nodes.metadata.records import ELIGIBLE_LEADER_REPLICAS_FEATURE, MetadataRecord
from nodes.metadata.topic_configs import (
    MIN_INSYNC_REPLICAS,
    UNCLEAN_LEADER_ELECTION_ENABLE,
    effective,
)

R = TypeVar("R")


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerResult(Generic[R]):
    """Records to append (maybe none), and the response after their commit."""

    records: Sequence[MetadataRecord] = ()
    response: R
    atomic: bool = True
    """Whether the records need to be one batch. If not, the cluster is valid after each record, and
    a new controller that finds only some of them in the log can continue from there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerState:
    """The metadata (committed or not), and the controller's settings and random numbers."""

    image: ClusterImage
    settings: ControlSettings
    rng: random.Random

    @property
    def policy(self) -> PolicyOf:
        """A function from a topic to its election policy, with a cache for one pass."""
        image, static = self.image, self.settings.static
        min_isr = effective(MIN_INSYNC_REPLICAS, image, static)
        unclean = effective(UNCLEAN_LEADER_ELECTION_ENABLE, image, static)
        eligible_leaders = image.features.get(ELIGIBLE_LEADER_REPLICAS_FEATURE, 1) > 0

        def policy(topic: str) -> TopicPolicy:
            own = image.topic_config(topic)
            return TopicPolicy(
                min_isr=int(own.get(MIN_INSYNC_REPLICAS, min_isr)),
                unclean=own.get(UNCLEAN_LEADER_ELECTION_ENABLE, unclean).lower() == "true",
                eligible_leaders=eligible_leaders,
            )

        return policy
