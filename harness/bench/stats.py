"""Medians, spreads and ratios of a handful of rounds. Pure.

With three to ten rounds no confidence interval means anything: what was seen is printed, least
and greatest, and the reader judges. A ratio of two systems is taken within each round, where both
met the same state of the machine; a ratio to a stored result has no such pairs and is as wide as
its extremes.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """A median with the least and the greatest value, of `count` values."""

    median: float
    least: float
    most: float
    count: int


def spread(values: Sequence[float]) -> Spread:
    """Of at least one value; ValueError without any."""
    if not values:
        raise ValueError("there is no spread of no values")
    return Spread(
        median=statistics.median(values), least=min(values), most=max(values), count=len(values)
    )


def paired_ratio(ours: dict[int, float], theirs: dict[int, float]) -> Spread | None:
    """The ratio ours/theirs over the rounds that have both, by round; None without any."""
    ratios = [ours[each] / theirs[each] for each in sorted(ours) if theirs.get(each)]
    return spread(ratios) if ratios else None


def unpaired_ratio(ours: Spread, theirs: Spread) -> Spread | None:
    """The ratio of the medians, between the extremes; None where it would divide by zero."""
    if theirs.least <= 0:
        return None
    return Spread(
        median=ours.median / theirs.median,
        least=ours.least / theirs.most,
        most=ours.most / theirs.least,
        count=min(ours.count, theirs.count),
    )


def quantile(ordered: Sequence[float], share: float) -> float:
    """The value below which `share` of the ascending values lie: nearest rank, so one that was
    measured. ValueError without any value."""
    if not ordered:
        raise ValueError("there is no quantile of no values")
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
