"""The replay memory: a fixed number of rows, filled by reservoir sampling, drawn from without replacement.

All bookkeeping (which slot a row goes to, which slots a draw takes) happens on the host with the run's own generators, so it
costs no synchronisation with a GPU, and a step costs the same for a memory of a thousand images as for a million.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from utils import randomness
from utils.augmentations import apply_transform, to_float
from utils.exemplars import fill_buffer, icarl_replay

ATTRIBUTES = ("examples", "labels", "logits", "task_labels", "true_labels")
STRATEGIES = ("reservoir", "unlimited")
Transform = Callable[[Tensor], Tensor] | None


def reservoir_slots(seen: int, count: int, size: int, generator: torch.Generator) -> dict[int, int]:
    """Decide where `count` new rows go (Vitter 1985, Algorithm R, each row by its own draw).

    Row i is number n = seen + i of the stream. While n < size it takes slot n; afterwards it takes slot floor(U (n + 1)) if
    that is below `size`, else it is dropped. So each row of the stream is kept with probability size / (n + 1).

    Returns:
        {slot: row}; where two rows want one slot, the later has it.
    """
    position = torch.arange(seen, seen + count, dtype=torch.float64)
    drawn = (torch.rand(count, dtype=torch.float64, generator=generator) * (position + 1)).long()
    slots = torch.where(position < size, position.long(), drawn).tolist()
    return {slot: row for row, slot in enumerate(slots) if slot < size}


class Buffer:
    """A memory of at most `buffer_size` rows, each an example with any of labels, logits and task labels.

    Images are kept as 8-bit integers when the data set declares them so (`eight_bit`) and the values allow it exactly; they are
    always handed out as floats in [0, 1].

    Args:
        buffer_size: the number of rows.
        device: where the rows live.
        sample_selection_strategy: `reservoir`, or `unlimited` (keeps everything that comes, `buffer_size` is then ignored).

    Raises:
        ValueError: an unknown strategy, or a size below 1.
    """

    FILLS_UP = True  # nothing that comes is left out before it is full

    def __init__(
        self,
        buffer_size: int,
        device: torch.device | str = "cpu",
        sample_selection_strategy: str = "reservoir",
        **kwargs: Any,
    ) -> None:
        if sample_selection_strategy not in STRATEGIES:
            allowed = ", ".join(STRATEGIES)
            raise ValueError(f"unknown sample_selection_strategy {sample_selection_strategy!r}; allowed: {allowed}")
        if buffer_size < 1 and sample_selection_strategy != "unlimited":
            raise ValueError(f"buffer_size must be at least 1, not {buffer_size}")
        self.buffer_size = buffer_size
        self.device = torch.device(device)
        self.sample_selection_strategy = sample_selection_strategy
        self.eight_bit = False
        self.num_seen_examples = 0
        self._rows: dict[str, Tensor] = {}
        self._past: list[int] = []
        self._past_place: dict[int, int] = {}

    # -- what is stored ------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        if self.sample_selection_strategy == "unlimited":
            return self.num_seen_examples
        return min(self.num_seen_examples, self.buffer_size)

    def is_empty(self) -> bool:
        """Whether nothing is stored yet."""
        return self.num_seen_examples == 0

    def is_full(self) -> bool:
        """Whether a new row would have to replace an old one."""
        return self.num_seen_examples >= self.buffer_size

    def empty(self) -> None:
        """Forget everything, the number of rows seen included."""
        self._rows, self.num_seen_examples = {}, 0
        self._past, self._past_place = [], {}

    @property
    def used_attributes(self) -> list[str]:
        """The names of what a row holds, in the fixed order."""
        return [name for name in ATTRIBUTES if name in self._rows]

    def __getattr__(self, name: str) -> Tensor:
        rows = self.__dict__.get("_rows", {})
        if name not in rows:
            raise AttributeError(f"the buffer holds no {name!r} (it holds: {', '.join(rows) or 'nothing yet'})")
        return _handed_out(rows[name]) if name == "examples" else rows[name]

    def to(self, device: torch.device | str) -> "Buffer":
        """Move the rows to a device."""
        self.device = torch.device(device)
        self._rows = {name: rows.to(self.device) for name, rows in self._rows.items()}
        return self

    # -- insert --------------------------------------------------------------------------------------------------------

    def add_data(
        self,
        examples: Tensor,
        labels: Tensor | None = None,
        logits: Tensor | None = None,
        task_labels: Tensor | None = None,
        attention_maps: Tensor | None = None,
        true_labels: Tensor | None = None,
        sample_selection_scores: Tensor | None = None,
    ) -> None:
        """Offer a batch to the memory; a random part of it is kept (all of it while there is room).

        Args:
            examples: (batch, ...) images in [0, 1] or features; the others: (batch, ...) each.
        """
        given = {
            "examples": examples,
            "labels": labels,
            "logits": logits,
            "task_labels": task_labels,
            "true_labels": true_labels,
        }
        columns = {name: values for name, values in given.items() if values is not None}
        count = len(examples)
        if self.sample_selection_strategy == "unlimited":
            kept = {self.num_seen_examples + row: row for row in range(count)}
        else:
            kept = reservoir_slots(self.num_seen_examples, count, self.buffer_size, randomness.generator("reservoir"))
        self.num_seen_examples += count
        if kept:
            self._write(columns, kept)

    def _write(self, columns: dict[str, Tensor], kept: dict[int, int]) -> None:
        slots = torch.tensor(list(kept.keys()), device=self.device)
        for name, values in columns.items():
            rows = torch.tensor(list(kept.values()), device=values.device)
            chosen = values.detach()[rows].to(self.device)
            stored = self._as_stored(chosen) if name == "examples" else chosen
            column = self._room_for(name, stored)
            column[slots] = stored.to(column.dtype)
        for slot in kept:
            self._forget_past(slot)

    def _stores_eight_bit(self) -> bool:
        """Whether examples go in as 8-bit rows: as those that are there, or else as declared."""
        return self._rows["examples"].dtype == torch.uint8 if "examples" in self._rows else self.eight_bit

    def _as_stored(self, examples: Tensor) -> Tensor:
        """Return 8-bit rows, height x width x channels, where the values allow it exactly; else floats as they are."""
        examples = examples.to(torch.float32)
        if not self._stores_eight_bit():
            return examples
        eight_bit = examples.mul(255).round_().clamp_(0, 255).to(torch.uint8)
        exact_so_far = "examples" in self._rows
        if self.device.type == "cpu" or not exact_so_far:  # on a GPU the look would wait for the device at each step
            if not torch.equal(to_float(eight_bit), examples):
                self.eight_bit = False
                if exact_so_far:
                    self._rows["examples"] = _handed_out(self._rows["examples"])
                return examples
        return eight_bit.permute(0, 2, 3, 1) if eight_bit.dim() == 4 else eight_bit

    def _room_for(self, name: str, values: Tensor) -> Tensor:
        """Return the column's tensor, allocated (or, if unlimited, grown) to hold the rows."""
        rows = self._rows.get(name)
        unlimited = self.sample_selection_strategy == "unlimited"
        needed = max(self.num_seen_examples, 1) if unlimited else self.buffer_size
        if rows is None or len(rows) < needed:
            capacity = max(needed, 2 * len(rows)) if rows is not None else needed
            other = torch.int64 if name.endswith("els") else torch.float32
            dtype = torch.uint8 if name == "examples" and values.dtype == torch.uint8 else other
            grown = torch.zeros((capacity, *values.shape[1:]), dtype=dtype, device=self.device)
            if rows is not None:
                grown[: len(rows)] = rows
            self._rows = {key: self._rows.get(key, grown) for key in ATTRIBUTES if key in self._rows or key == name}
            self._rows[name] = grown
        return self._rows[name]

    # -- the past tasks' rows ------------------------------------------------------------------------------------------

    def mark_past(self) -> None:
        """Take note that all rows stored now belong to past tasks; `get_data(only_past=True)` draws from these."""
        self._past = list(range(len(self)))
        self._past_place = {slot: slot for slot in self._past}

    def _forget_past(self, slot: int) -> None:
        """Take an overwritten slot off the list of past rows, in constant time."""
        place = self._past_place.pop(slot, None)
        if place is None:
            return
        last = self._past.pop()
        if last != slot:
            self._past[place] = last
            self._past_place[last] = place

    @property
    def num_past(self) -> int:
        """How many rows of past tasks are left."""
        return len(self._past)

    # -- draw ----------------------------------------------------------------------------------------------------------

    def get_data(
        self,
        size: int,
        transform: Transform = None,
        return_index: bool = False,
        device: torch.device | str | None = None,
        mask_task_out: int | None = None,
        cpt: int | None = None,
        return_not_aug: bool = False,
        not_aug_transform: Transform = None,
        force_indexes: Tensor | None = None,
        only_past: bool = False,
    ) -> tuple[Tensor, ...]:
        """Draw rows without replacement; all rows there are if fewer than `size`.

        Args:
            size: how many rows.
            transform: augmentation and normalisation of the examples.
            return_index: put the rows' slots first.
            device: where the result is wanted (default: where the buffer lives).
            mask_task_out, cpt: leave out the rows whose label // cpt is this task.
            return_not_aug, not_aug_transform: put the un-augmented examples before the augmented ones.
            force_indexes: take these slots instead of drawing.
            only_past: draw from the rows that `mark_past` noted and nothing has replaced.

        Returns:
            `([index], [un-augmented examples], examples, then what else is stored in the fixed order)`.

        Raises:
            AttributeError: the buffer is empty.
        """
        if not self._rows:
            raise AttributeError("the buffer is empty: nothing to draw")
        if force_indexes is None:
            force_indexes = self._draw(size, mask_task_out, cpt, only_past)
        rows = self.get_data_by_index(force_indexes, transform, device)
        if return_not_aug:
            rows = (*self.get_data_by_index(force_indexes, not_aug_transform, device)[:1], *rows)
        return (force_indexes.to(rows[0].device), *rows) if return_index else rows

    def _draw(self, size: int, mask_task_out: int | None, cpt: int | None, only_past: bool) -> Tensor:
        """Choose slots, on the host unless rows are masked by label."""
        generator = randomness.generator("replay")
        if only_past:
            places = distinct_indices_of(self._past, size, generator)
            return torch.tensor(places, dtype=torch.int64)
        if mask_task_out is None:
            return randomness.distinct_indices(len(self), size, generator)
        if cpt is None:
            raise ValueError("mask_task_out needs cpt, the number of classes per task")
        allowed = (self._rows["labels"][: len(self)] // cpt != mask_task_out).nonzero()[:, 0].cpu()
        return allowed[randomness.distinct_indices(len(allowed), size, generator)]

    def get_data_by_index(
        self, indexes: Tensor, transform: Transform = None, device: torch.device | str | None = None
    ) -> tuple[Tensor, ...]:
        """Return the rows at these slots: transformed examples, then what else is stored."""
        target = torch.device(device) if device is not None else self.device
        here = indexes.to(self.device)
        drawn = {name: rows[here].to(target) for name, rows in self._rows.items()}
        examples = apply_transform(_channels_first(drawn.pop("examples")), transform)
        return (examples, *drawn.values())

    def get_all_data(self, transform: Transform = None, device: torch.device | str | None = None) -> tuple[Tensor, ...]:
        """Return every row stored, in slot order."""
        return self.get_data_by_index(torch.arange(len(self)), transform, device)

    def __getitem__(self, index: int) -> tuple[Tensor, ...]:
        return tuple(column[0] for column in self.get_data_by_index(torch.tensor([index])))

    def __iter__(self) -> Iterator[tuple[Tensor, ...]]:
        return (self[index] for index in range(len(self)))

    # -- state ---------------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return a copy of everything needed to go on later: rows, counter, past slots."""
        filled = {name: rows[: len(self)].clone() for name, rows in self._rows.items()}
        return {
            **filled,
            "num_seen_examples": self.num_seen_examples,
            "past": torch.tensor(self._past, dtype=torch.int64),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Put back what `state_dict` gave."""
        self.empty()
        self.num_seen_examples = int(state["num_seen_examples"])
        for name in ATTRIBUTES:
            if name in state:
                self.eight_bit = self.eight_bit or state[name].dtype == torch.uint8
                self._room_for(name, state[name])[: len(state[name])] = state[name].to(self.device)
        self._past = [int(slot) for slot in state["past"]]
        self._past_place = {slot: place for place, slot in enumerate(self._past)}


def distinct_indices_of(values: list[int], size: int, generator: torch.Generator) -> list[int]:
    """Draw `size` distinct entries of a list (all of them if there are fewer)."""
    return [values[place] for place in randomness.distinct_indices(len(values), size, generator).tolist()]


def _channels_first(rows: Tensor) -> Tensor:
    """View stored 8-bit images (height x width x channels) as channels first; other rows unchanged."""
    return rows.permute(0, 3, 1, 2) if rows.dtype == torch.uint8 and rows.dim() == 4 else rows


def _handed_out(rows: Tensor) -> Tensor:
    """Return stored examples as users see them: floats, channels first."""
    return to_float(_channels_first(rows))


__all__ = ["Buffer", "fill_buffer", "icarl_replay", "reservoir_slots"]
