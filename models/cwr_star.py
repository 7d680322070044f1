"""CWR*: copy weights with re-init, on experience replay (Lomonaco, Maltoni, Pellegrini 2020, arXiv 1907.03799).

The classifier's rows are trained afresh in each task and blended into saved rows at its end; the saved rows are what predicts.
Written from the paper and the description of the authors' code in `docs/methods/cwr_star.md`.
"""

from typing import Any

import torch
from torch import Tensor, nn

from datasets.utils.continual_dataset import ContinualDataset
from models.er import Er


def rows_to_train(saved: Tensor, current: Tensor) -> Tensor:
    """Return tw at a task's start: the saved row of each class that is `current`, (classes,) bool; zeros for all others.

    A class met for the first time has a saved row of zeros, so it starts from zero too.
    """
    return torch.where(current[:, None], saved, 0.0)


def consolidate(saved: Tensor, past: Tensor, trained: Tensor, count: Tensor) -> Tensor:
    """Return the saved rows after a task: w_j <- (w_j r_j + tw_j - avg(tw)) / (r_j + 1) with r_j = sqrt(past_j / cur_j).

    avg(tw) is one number, the mean over all weights of the task's rows. A new class has past_j = 0, so w_j = tw_j - avg(tw).

    Args:
        saved, trained: w and tw, (classes, features).
        past, count: past_j and cur_j, (classes,) images of each class in the tasks before and in this one; where cur_j = 0 the
            saved row stays.
    """
    current = count > 0
    shifted = trained - trained[current].mean()
    ratio = (past / count.clamp(min=1)).sqrt()[:, None]
    return torch.where(current[:, None], (saved * ratio + shifted) / (ratio + 1), saved)


class CwrStar(Er):
    """CWR* on experience replay: saved classifier rows, consolidated at the end of each task."""

    NAME = "cwr_star"
    COMPATIBILITY = ["class-il", "domain-il", "task-il"]

    saved: Tensor
    past: Tensor
    count: Tensor

    def __init__(self, backbone: Any, loss: Any, args: Any, transform: Any, dataset: Any = None) -> None:
        head = backbone.classifier
        if not isinstance(head, nn.Linear):
            raise ValueError(f"{self.NAME} needs a linear classifier, not {type(head).__name__}")
        head.register_parameter("bias", None)  # CWR* has no bias
        super().__init__(backbone, loss, args, transform, dataset=dataset)
        self.register_buffer("saved", torch.zeros_like(head.weight.detach()))  # w
        self.register_buffer("past", torch.zeros(len(head.weight), dtype=torch.int64))  # past_j
        self.register_buffer("count", torch.zeros_like(self.past))  # cur_j

    def begin_task(self, dataset: ContinualDataset) -> None:
        """Zero the counts of this task and load the rows that it will train: its classes and those it will replay."""
        super().begin_task(dataset)
        self.count.zero_()
        current = torch.zeros_like(self.count, dtype=torch.bool)
        current[self.n_past_classes : self.n_seen_classes] = True
        if self.replays():
            current[self.buffer.labels[: len(self.buffer)]] = True
        self.load_rows(rows_to_train(self.saved, current))

    def end_task(self, dataset: ContinualDataset) -> None:
        """Consolidate, then load all saved rows for evaluation."""
        self.saved.copy_(consolidate(self.saved, self.past, self.net.classifier.weight.detach(), self.count))
        self.past += self.count
        self.load_rows(self.saved)

    @torch.no_grad()
    def load_rows(self, rows: Tensor) -> None:
        """Overwrite the classifier's weights."""
        self.net.classifier.weight.copy_(rows)

    def draw(self) -> tuple[Tensor, ...]:
        rows = super().draw()
        self.count_images(rows[1])
        return rows

    def remember(self, images: Tensor, labels: Tensor, logits: Tensor) -> None:
        self.count_images(labels)
        super().remember(images, labels, logits)

    def count_images(self, labels: Tensor) -> None:
        """Add a trained batch to cur_j; replayed images count like those of the stream, each time they are drawn."""
        self.count.index_add_(0, labels, torch.ones_like(labels))
