"""GSS-greedy's memory (Aljundi et al. 2019, arXiv 1903.08671, algorithm 2). Here for upstream's gss."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from utils import randomness
from utils.buffer import Buffer as RowBuffer


class Buffer(RowBuffer):
    """Keeps rows whose gradients point apart; a row's score is its largest cosine to some rows of the memory, plus one.

    Once full, a batch whose score is below 1 may replace: each of its rows competes with a stored one, drawn in proportion to
    its score, and wins with probability (stored score) / (stored score + own score).

    Args:
        buffer_size: the number of rows; `device`: where they live.
        minibatch_size: rows of the memory that a new one is compared with.
        model: gives `get_grads(images, labels) -> (1, parameters)`.
    """

    def __init__(self, buffer_size: int, device: torch.device | str, minibatch_size: int, model: Any = None) -> None:
        super().__init__(buffer_size, device=device)
        self.minibatch_size = minibatch_size
        self.model = model
        self.scores = torch.zeros(buffer_size)
        self.order, self.place = torch.zeros(0, dtype=torch.int64), 0
        self.cache: dict[int, Tensor] = {}

    def reset_fathom(self) -> None:
        """Begin a new pass over the memory, in random order: draws that follow go through it row by row."""
        self.order, self.place = torch.randperm(len(self), generator=randomness.generator("replay")), 0

    def drop_cache(self) -> None:
        """Forget the stored rows' gradients, which are those of an older network."""
        self.cache = {}

    def get_data(  # type: ignore[override]  # the signature that upstream's gss calls
        self, size: int, transform: Any = None, give_index: bool = False, random: bool = False, device: Any = None
    ) -> Any:
        """Return `(examples, labels)`, and their slots if `give_index`: the next ones of the pass, or random ones."""
        if random:
            slots = randomness.distinct_indices(len(self), size, randomness.generator("gss"))
        else:
            slots = self.order[self.place : self.place + size]
            self.place = (self.place + len(slots)) % max(len(self.order), 1)
        rows = self.get_data_by_index(slots, transform, device)
        return (*rows, slots) if give_index else rows

    def add_data(self, examples: Tensor, labels: Tensor | None = None, **columns: Any) -> None:  # type: ignore[override]
        """Offer a batch of images (batch, channels, height, width) and labels (batch,)."""
        assert labels is not None
        shown = self.get_data(min(self.minibatch_size, len(self)), give_index=True, random=True) if len(self) else None
        of_batch = self._score(examples, labels, shown) if shown else 0.1
        generator = randomness.generator("gss")
        for image, label in zip(examples, labels, strict=True):
            row = {"examples": image[None], "labels": label[None]}
            if self.num_seen_examples < self.buffer_size:
                self._place(self.num_seen_examples, of_batch, row)
            elif of_batch < 1 and shown is not None:
                own = self._score(row["examples"], row["labels"], shown)
                slot = int(torch.multinomial(self.scores, 1, generator=generator))
                stored = float(self.scores[slot])
                if float(torch.rand(1, generator=generator)) < stored / (stored + own):
                    self._place(slot, own, row)
            self.num_seen_examples += 1

    def _place(self, slot: int, score: float, row: dict[str, Tensor]) -> None:
        self._write(row, {slot: 0})
        self.scores[slot] = score
        self.cache.pop(slot, None)

    def _score(self, images: Tensor, labels: Tensor, shown: Any) -> float:
        gradient = self.model.get_grads(images, labels)
        for image, label, slot in zip(*shown[:2], shown[-1].tolist(), strict=True):
            if slot not in self.cache:
                self.cache[slot] = self.model.get_grads(image[None].to(images.device), label[None].to(images.device))
        stored = torch.cat([self.cache[slot] for slot in shown[-1].tolist()])
        return float(F.cosine_similarity(gradient, stored, dim=1).max()) + 1

    def state_dict(self) -> dict[str, Any]:
        """Return a copy of everything needed to go on later."""
        return {**super().state_dict(), "scores": self.scores.clone()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Put back what `state_dict` gave."""
        super().load_state_dict(state)
        self.scores = state["scores"].clone()
