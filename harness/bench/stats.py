"""Medians, spreads and ratios of a few rounds. Pure.

A confidence interval means nothing with three to ten rounds. The least and greatest values are
printed instead, and the reader judges. The ratio of two systems is computed within each round,
because both met the same state of the machine there. A ratio to a stored result has no such pairs;
its spread reaches from one extreme to the other.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """The median, least and greatest of `count` values."""

    median: float
    least: float
    most: float
    count: int


def spread(values: Sequence[float]) -> Spread:
    """Return the spread of the values. Raises ValueError without a value."""
    if not values:
        raise ValueError("there is no spread of no values")
    return Spread(
        median=statistics.median(values), least=min(values), most=max(values), count=len(values)
    )


def paired_ratio(ours: dict[int, float], theirs: dict[int, float]) -> Spread | None:
    """Return the spread of ours/theirs over the rounds that have both; None without such rounds.

    Both are values by round.
    """
    ratios = [ours[each] / theirs[each] for each in sorted(ours) if theirs.get(each)]
    return spread(ratios) if ratios else None


def unpaired_ratio(ours: Spread, theirs: Spread) -> Spread | None:
    """Return the ratio of the medians and of the extremes; None for a division by zero."""
    if theirs.least <= 0:
        return None
    return Spread(
        median=ours.median / theirs.median,
        least=ours.least / theirs.most,
        most=ours.most / theirs.least,
        count=min(ours.count, theirs.count),
    )


def quantile(ordered: Sequence[float], share: float) -> float:
    """Return the value below which `share` of the ascending values lie.

    It is a measured value (nearest rank). Raises ValueError without a value.
    """
    if not ordered:
        raise ValueError("there is no quantile of no values")
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
