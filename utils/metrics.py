"""What the accuracy matrix says. All in percent; `matrix[stage][task]` is the accuracy on a task after a stage of training.

Row k holds the tasks evaluated after stage k: k + 1 entries in a sequence, all of them in a run that trains on everything at once.
A measure that one stage cannot give is None, never nan.
"""

from collections.abc import Sequence

Matrix = Sequence[Sequence[float]]


def average_accuracy(matrix: Matrix) -> float:
    """ACC = (1/K) sum_i a_{i,K}: the mean over tasks of the last stage's accuracy (PVBF, section 4.1.4, eq. 14).

    The paper prints a_{i,k}; the last stage K is meant.
    """
    return sum(matrix[-1]) / len(matrix[-1])


def forgetting(matrix: Matrix) -> float | None:
    """FR = 1/(K-1) sum_{i<K} (max_k a_{i,k} - a_{i,K}): the mean fall from the best stage (PVBF, section 4.1.4, eq. 15).

    The maximum runs over all stages, the last included, so it is never negative. None for a single stage.
    """
    if len(matrix) < 2:
        return None
    tasks = len(matrix[-1]) - 1
    falls = [max(row[task] for row in matrix if task < len(row)) - matrix[-1][task] for task in range(tasks)]
    return sum(falls) / tasks


def backward_transfer(matrix: Matrix) -> float | None:
    """BWT = 1/(K-1) sum_{i<K} (a_{i,K} - a_{i,i}) (Lopez-Paz and Ranzato 2017). None for a single stage."""
    if len(matrix) < 2:
        return None
    tasks = len(matrix[-1]) - 1
    return sum(matrix[-1][task] - matrix[task][task] for task in range(tasks)) / tasks


def forward_transfer(before: Sequence[float], random: Sequence[float]) -> float | None:
    """FWT = 1/(K-1) sum_{i>1} (accuracy on task i before training on it - that of random weights) (the same).

    Args:
        before: accuracy on tasks 2, 3, ... just before each is trained.
        random: accuracy of the untrained network on the same tasks.
    """
    if not before:
        return None
    return sum(now - start for now, start in zip(before, random, strict=True)) / len(before)


def anytime_average_accuracy(matrix: Matrix) -> float:
    """Mean over the stages of the mean accuracy on the tasks so far (Caccia et al. 2022)."""
    return sum(sum(row) / len(row) for row in matrix) / len(matrix)


def prediction_bias(confusion: Sequence[Sequence[int]], first: int, past_last: int) -> float:
    """Share in percent of the test images that are predicted as one of the classes [first, past_last).

    Args:
        confusion: row i, column j counts the images of class i predicted as class j.
    """
    total = sum(sum(row) for row in confusion)
    return 100 * sum(sum(row[first:past_last]) for row in confusion) / total
