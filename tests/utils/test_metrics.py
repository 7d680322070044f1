"""What the accuracy matrix says, on matrices worked out by hand."""

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from utils import metrics

HAND = [[90.0], [60.0, 80.0], [50.0, 70.0, 85.0]]
JOINT = [[90.0, 80.0, 70.0]]


@st.composite
def matrices(draw):
    """Return the accuracy matrix of a sequence of up to seven tasks."""
    tasks = draw(st.integers(1, 7))
    accuracy = st.floats(0, 100)
    return [draw(st.lists(accuracy, min_size=k + 1, max_size=k + 1)) for k in range(tasks)]


def test_average_accuracy_is_that_of_the_last_stage():
    """(50 + 70 + 85) / 3."""
    assert metrics.average_accuracy(HAND) == pytest.approx(205 / 3)


def test_forgetting_by_hand():
    """((90 - 50) + (80 - 70)) / 2 = 25."""
    assert metrics.forgetting(HAND) == 25.0


def test_backward_transfer_by_hand():
    """((50 - 90) + (70 - 80)) / 2 = -25."""
    assert metrics.backward_transfer(HAND) == -25.0


def test_forgetting_counts_from_the_best_stage():
    """Task 0 is best after stage 1 (70), not after its own (40): fall 70 - 60; BWT counts from its own: + 20."""
    matrix = [[40.0], [70.0, 50.0], [60.0, 50.0, 10.0]]
    assert metrics.forgetting(matrix) == 5.0
    assert metrics.backward_transfer(matrix) == 10.0


def test_a_task_that_only_gains_is_not_forgotten():
    """The last stage is the best: FR is 0, not negative."""
    assert metrics.forgetting([[10.0], [20.0, 30.0]]) == 0.0


def test_anytime_accuracy_by_hand():
    """(90 + 70 + 205 / 3) / 3."""
    assert metrics.anytime_average_accuracy(HAND) == pytest.approx((90 + 70 + 205 / 3) / 3)


def test_forward_transfer_by_hand():
    """((12 - 10) + (7 - 11)) / 2 = -1."""
    assert metrics.forward_transfer([12.0, 7.0], [10.0, 11.0]) == -1.0


def test_forward_transfer_of_one_task_is_none():
    """There is nothing before it."""
    assert metrics.forward_transfer([], []) is None


def test_forward_transfer_needs_both_for_each_task():
    """Lists of different lengths are an error, not cut short."""
    with pytest.raises(ValueError, match="zip"):
        metrics.forward_transfer([1.0, 2.0], [1.0])


@pytest.mark.parametrize("matrix", [[[90.0]], JOINT])
def test_one_stage_gives_no_forgetting(matrix):
    """None for a single task and for a joint run, never nan."""
    assert metrics.forgetting(matrix) is None
    assert metrics.backward_transfer(matrix) is None


def test_a_joint_row_has_an_accuracy():
    """The mean over the tasks of its one stage."""
    assert metrics.average_accuracy(JOINT) == 80.0
    assert metrics.anytime_average_accuracy(JOINT) == 80.0


def test_the_matrix_is_left_as_it_was():
    """Upstream pads the caller's lists."""
    matrix = [list(row) for row in HAND]
    metrics.forgetting(matrix)
    metrics.backward_transfer(matrix)
    assert matrix == HAND


@given(matrix=matrices())
@hypothesis_settings(deadline=None, max_examples=200)
def test_forgetting_is_never_negative_and_at_least_minus_bwt(matrix):
    """The best stage is at least as good as the task's own."""
    fall = metrics.forgetting(matrix)
    if len(matrix) == 1:
        assert fall is None
        return
    assert 0 <= fall <= 100
    assert fall >= -metrics.backward_transfer(matrix) - 1e-9


@given(matrix=matrices(), shift=st.floats(0, 50))
@hypothesis_settings(deadline=None, max_examples=100)
def test_only_differences_count_for_forgetting(matrix, shift):
    """Adding a constant to all accuracies shifts ACC and leaves FR and BWT."""
    shifted = [[value + shift for value in row] for row in matrix]
    assert metrics.average_accuracy(shifted) == pytest.approx(metrics.average_accuracy(matrix) + shift)
    if len(matrix) > 1:
        assert metrics.forgetting(shifted) == pytest.approx(metrics.forgetting(matrix), abs=1e-9)
        assert metrics.backward_transfer(shifted) == pytest.approx(metrics.backward_transfer(matrix), abs=1e-9)


def test_prediction_bias_by_hand():
    """Of 16 images, 4 + 1 + 2 + 2 are predicted as class 2 or 3."""
    confusion = [[1, 0, 4, 0], [0, 2, 0, 1], [3, 1, 2, 0], [0, 0, 0, 2]]
    assert metrics.prediction_bias(confusion, 2, 4) == 100 * 9 / 16
    assert metrics.prediction_bias(confusion, 0, 4) == 100.0
    assert metrics.prediction_bias(confusion, 0, 2) + metrics.prediction_bias(confusion, 2, 4) == 100.0
