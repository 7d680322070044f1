"""Training labels that are wrong (`--noise_rate`) or missing (`--label_perc_by_task`, `--label_perc_by_class`)."""

from argparse import Namespace

import torch
from torch import Tensor

from utils import randomness

UNLABELLED = -1


def noisy(labels: Tensor, rate: float, others: list[int] | None, classes: int, generator: torch.Generator) -> Tensor:
    """Return labels of which a share is wrong: of each class's images round(rate * count), chosen at random.

    Args:
        labels: (n,) int64.
        others: asymmetric noise: the label that takes the place of each class's; None: symmetric, drawn from all classes.
        generator: draws; with the same state it changes the same images.

    Returns:
        (n,) int64, a new tensor.
    """
    changed = labels.clone()
    for label in range(classes):
        rows = (labels == label).nonzero()[:, 0]
        chosen = rows[torch.randperm(len(rows), generator=generator).to(rows.device)[: round(rate * len(rows))]]
        drawn = torch.randint(classes, (len(chosen),), generator=generator).to(labels)
        changed[chosen] = drawn if others is None else others[label]
    return changed


def with_noise(labels: Tensor, args: Namespace, classes: int, others: list[int] | None, name: str) -> Tensor:
    """Return a training split's labels with the noise that the flags ask for; it follows from the seed and the flags alone.

    Raises:
        ValueError: asymmetric noise for a benchmark that says of no class what it is taken for.
    """
    rate = getattr(args, "noise_rate", 0.0)
    if not rate:
        return labels
    asymmetric = args.noise_type.startswith("asym")
    if asymmetric and others is None:
        raise ValueError(f"--noise_type asymmetric: {name} does not say which classes are confused; use symmetric")
    return noisy(labels, rate, others if asymmetric else None, classes, randomness.fresh("label noise"))


def partly_unlabelled(labels: Tensor, args: Namespace, task: int) -> Tensor:
    """Return a task's labels with all but the share asked for, of the task or of each class, set to -1; rounded down."""
    of_task, of_class = getattr(args, "label_perc", 1.0), getattr(args, "label_perc_by_class", 1.0)
    if of_task == 1 and of_class == 1:
        return labels
    generator = randomness.fresh(f"labels kept/{task}")
    groups = [torch.ones_like(labels, dtype=torch.bool)] if of_task < 1 else [labels == label for label in labels.unique()]
    kept = torch.full_like(labels, UNLABELLED)
    for group in groups:
        rows = group.nonzero()[:, 0]
        chosen = rows[torch.randperm(len(rows), generator=generator).to(rows.device)[: int(min(of_task, of_class) * len(rows))]]
        kept[chosen] = labels[chosen]
    return kept
