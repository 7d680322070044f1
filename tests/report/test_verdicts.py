"""What may be said of a cell."""

import pytest

from mammoth.report.stats import Interval, t_interval
from mammoth.report.targets import Target
from mammoth.report.verdicts import verdict

PAPER = Target(50.0, 1.5, "50.0 ± 1.5", "run", "")


def ours(mean, half_width, n=15):
    return Interval(mean, half_width, n)


@pytest.mark.parametrize(
    ("interval", "expected"),
    [
        (ours(50.9, 5.0), "match"),  # within a point
        (ours(50.9, 5.1), "undecided (15)"),  # near by luck, with such an interval
        (ours(52.4, 1.9), "match"),  # within 2.42, both half-widths in quadrature
        (ours(52.4, 2.1), "undecided (15)"),  # the same gap with an interval too wide to tell
        (ours(52.9, 0.5), "close"),  # beyond both intervals, within 3 points
        (ours(53.5, 0.5), "differs"),
        (ours(56.0, 9.0), "undecided (15)"),
        (ours(50.0, None, 1), "undecided (1)"),  # one seed decides nothing
        (ours(53.5, 0.1, 2), "undecided (2)"),  # two seeds may agree by luck
        (ours(50.0, 0.1, 2), "undecided (2)"),
        (ours(53.5, 0.1, 3), "differs"),
        (None, "not run (0/15)"),
    ],
)
def test_verdict(interval, expected):
    """Each rule of DESIGN's list, at both sides of its bound."""
    assert verdict(interval, PAPER, 15) == expected


def test_cited_numbers_are_cited_until_we_run_them():
    """A number that the paper took from elsewhere needs no run, and is judged if there is one."""
    cited = PAPER._replace(source="cited")
    assert verdict(None, cited, 15) == "cited"
    assert verdict(ours(50.0, 1.0), cited, 15) == "match"


def test_no_verdict_without_a_number_of_the_papers():
    """Our own experiments have none."""
    assert verdict(ours(50.0, 1.0), None, 15) == ""


def test_t_interval_by_hand():
    """Values 1, 2, 3: mean 2, s = 1, t(2) = 4.302653, half-width 2.484138."""
    mean, half_width, n = t_interval([1.0, 2.0, 3.0])
    assert (mean, n) == (2.0, 3)
    assert half_width == pytest.approx(4.302652729749464 / 3**0.5, rel=1e-9)


def test_one_value_has_no_interval_and_none_is_an_error():
    """n = 1 is shown without a half-width, never as nan."""
    assert t_interval([4.0]) == (4.0, None, 1)
    with pytest.raises(ValueError, match="at least one"):
        t_interval([])
