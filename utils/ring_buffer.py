"""A memory with an equal share for each task, each share a ring. Here for upstream's hal, which imports it."""

from typing import Any

import torch
from torch import Tensor

from utils import randomness
from utils.buffer import Buffer


class RingBuffer(Buffer):
    """`buffer_size // n_tasks` rows a task; a task's newest rows overwrite its oldest.

    `task_number` says whose share is being filled, and `num_seen_examples` how many rows of that task have come: both are set
    by the method when a task begins.

    Raises:
        ValueError: less than a row for each task.
    """

    FILLS_UP = False

    def __init__(self, buffer_size: int, n_tasks: int = 1, device: torch.device | str = "cpu", **kwargs: Any) -> None:
        super().__init__(buffer_size, device=device)
        self.buffer_portion_size = buffer_size // n_tasks
        if self.buffer_portion_size < 1:
            raise ValueError(
                f"--buffer_size {buffer_size}: each of the {n_tasks} tasks needs a row of its own; give {n_tasks} or more"
            )
        self.task_number = 0
        self.filled: list[int] = []

    def __len__(self) -> int:
        return len(self.filled)

    def is_empty(self) -> bool:
        """Whether nothing is stored yet."""
        return not self.filled

    def empty(self) -> None:
        """Forget everything."""
        super().empty()
        self.filled = []

    def add_data(
        self, examples: Tensor, labels: Tensor | None = None, logits: Tensor | None = None, task_labels: Tensor | None = None,
        attention_maps: Tensor | None = None, true_labels: Tensor | None = None, sample_selection_scores: Tensor | None = None,
    ) -> None:  # fmt: skip
        """Store a batch in the current task's share. `examples`: (batch, ...); labels and others: (batch, ...)."""
        given = {"examples": examples, "labels": labels, "logits": logits, "task_labels": task_labels, "true_labels": true_labels}
        start = self.task_number * self.buffer_portion_size
        turns = range(self.num_seen_examples, self.num_seen_examples + len(examples))
        kept = {start + turn % self.buffer_portion_size: row for row, turn in enumerate(turns)}
        self.num_seen_examples += len(examples)
        self._write({name: values for name, values in given.items() if values is not None}, kept)
        self.filled = sorted({*self.filled, *kept})

    def _draw(self, size: int, mask_task_out: int | None, cpt: int | None, only_past: bool) -> Tensor:
        places = randomness.distinct_indices(len(self.filled), size, randomness.generator("replay"))
        return torch.tensor(self.filled, dtype=torch.int64)[places]

    def get_all_data(self, transform: Any = None, device: torch.device | str | None = None) -> tuple[Tensor, ...]:
        """Return every row stored, in slot order."""
        return self.get_data_by_index(torch.tensor(self.filled, dtype=torch.int64), transform, device)

    def state_dict(self) -> dict[str, Any]:
        """Return a copy of everything needed to go on later."""
        rows = {name: column.clone() for name, column in self._rows.items()}
        counters = {"num_seen_examples": self.num_seen_examples, "task_number": self.task_number}
        return {**rows, **counters, "filled": torch.tensor(self.filled, dtype=torch.int64)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Put back what `state_dict` gave."""
        super().load_state_dict({**state, "past": []})
        self.task_number, self.filled = int(state["task_number"]), [int(slot) for slot in state["filled"]]
