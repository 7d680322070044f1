"""Ours beside the paper's: what may be said of a cell."""

import math

from mammoth.report.stats import Interval
from mammoth.report.targets import Target

MATCH, CLOSE, SHARP, WIDE = 1.0, 3.0, 2.0, 5.0  # points of accuracy
LEAST = 3  # seeds


def verdict(ours: Interval | None, paper: Target | None, planned: int) -> str:
    """Judge a cell.

    `match`: within 1 point (unless our half-width exceeds 5: then a mean that is near is luck), or within both half-widths in
    quadrature while ours is at most 2 points. `close`: within 3 points. `differs`: further off. `undecided (n)`: fewer than 3
    seeds, or an interval too wide to tell. `not run (0/planned)`, and `cited` for a number that the paper took from elsewhere
    and that we did not run.

    Args:
        ours: our mean and half-width, None if not run; paper: the paper's, None if it has none (then: no verdict, "").
        planned: the number of seeds that the experiment asks for.
    """
    if ours is None:
        return "cited" if paper is not None and paper.source == "cited" else f"not run (0/{planned})"
    if paper is None:
        return ""
    if ours.half_width is None or ours.n < LEAST:
        return f"undecided ({ours.n})"
    gap = abs(ours.mean - paper.mean)
    together = math.hypot(ours.half_width, paper.half_width or 0.0)
    if (gap <= MATCH and ours.half_width <= WIDE) or (gap <= together and ours.half_width <= SHARP):
        return "match"
    if gap <= together:
        return f"undecided ({ours.n})"
    return "close" if gap <= CLOSE else "differs"
