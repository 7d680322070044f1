"""Means and intervals over seeds."""

import math
from collections.abc import Sequence
from typing import NamedTuple


class Interval(NamedTuple):
    """A mean and the half-width of its 95 % t-interval; None where n = 1."""

    mean: float
    half_width: float | None
    n: int


def t_interval(values: Sequence[float], confidence: float = 0.95) -> Interval:
    """Return mean +- t s / sqrt(n), s the sample standard deviation and t Student's quantile with n - 1 degrees of freedom.

    Raises:
        ValueError: no values.
    """
    n = len(values)
    if n == 0:
        raise ValueError("an interval needs at least one value")
    mean = sum(values) / n
    if n == 1:
        return Interval(mean, None, 1)
    from scipy.special import stdtrit  # scipy.stats takes a second to import

    deviation = math.sqrt(sum((value - mean) ** 2 for value in values) / (n - 1))
    quantile = float(stdtrit(n - 1, (1 + confidence) / 2))
    return Interval(mean, quantile * deviation / math.sqrt(n), n)
