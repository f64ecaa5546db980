"""What a decision of the controller sees, and what it gives back. Pure.

An administrative operation is a function of a ControllerState and a request to a ControllerResult;
it changes nothing, and a refusal as a whole is a ControlError. The controller's shell appends the
records and answers once they are committed.
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
    """Records to append (maybe none), and the answer once they are committed."""

    records: Sequence[MetadataRecord] = ()
    response: R
    atomic: bool = True
    """All in one batch or not at all. Otherwise each record leaves a sound cluster behind, and a
    controller that finds only the first of them in the log goes on from there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerState:
    """The metadata as it is, committed or not, and the controller's configuration and chance."""

    image: ClusterImage
    settings: ControlSettings
    rng: random.Random

    @property
    def policy(self) -> PolicyOf:
        """What elections depend on, by topic; to be kept for a pass over many topics."""
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
