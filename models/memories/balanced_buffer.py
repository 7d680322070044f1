"""The class-balanced greedy memory of GDumb (Prabhu et al. 2020)."""

from bisect import insort
from typing import Any

import torch
from torch import Tensor

from models.memories.placed_buffer import PlacedBuffer
from utils import randomness

Slots = dict[int, list[int]]


def greedy_slot_(slots_of: Slots, label: int, size: int, generator: torch.Generator) -> int | None:
    """Decide where an image of class y goes, and note it in `slots_of` (slots in ascending order, by class).

    With k = `size` and k_c = k / (number of classes met, y included): the image is dropped if its class has k_c or
    more. Else it takes a free slot; if there is none, the slot of a random image of the largest class (the lowest label of
    several).

    Returns:
        The slot, or None.
    """
    own = slots_of.setdefault(label, [])
    if len(own) * len(slots_of) >= size:
        return None
    slot = sum(map(len, slots_of.values()))
    if slot == size:
        largest = slots_of[max(sorted(slots_of), key=lambda other: len(slots_of[other]))]
        slot = largest.pop(int(torch.randint(len(largest), (), generator=generator)))
    insort(own, slot)
    return slot


class BalancedBuffer(PlacedBuffer):
    """A memory of at most `buffer_size` images, kept balanced over the classes met so far.

    Which images are kept depends on their labels, so each batch's labels are brought to the host.
    """

    FILLS_UP = False

    def __init__(self, buffer_size: int, device: torch.device | str = "cpu") -> None:
        super().__init__(buffer_size, device)
        self.slots_of: Slots = {}

    def __len__(self) -> int:
        return sum(map(len, self.slots_of.values()))

    def offer(self, examples: Tensor, labels: Tensor) -> None:
        """Offer a batch of the stream to the memory, image by image."""
        generator = randomness.generator("balanced_memory")
        kept = {}
        for row, label in enumerate(labels.tolist()):
            slot = greedy_slot_(self.slots_of, label, self.buffer_size, generator)
            if slot is not None:
                kept[slot] = row
        self.put(kept, len(labels), examples=examples, labels=labels)

    def empty(self) -> None:
        """Forget everything, the classes met included."""
        super().empty()
        self.slots_of = {}

    def state_dict(self) -> dict[str, Any]:
        """Return the rows, the counter, and the classes met (of which some may have lost all their rows)."""
        return {**super().state_dict(), "classes": torch.tensor(sorted(self.slots_of), dtype=torch.int64)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Put back what `state_dict` gave."""
        super().load_state_dict(state)
        self.slots_of = {label: [] for label in state["classes"].tolist()}
        for slot, label in enumerate(state["labels"].tolist() if "labels" in state else []):
            self.slots_of[label].append(slot)
