"""Images as one tensor per split, and batches as indices into it."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from utils.augmentations import to_float

Batch = tuple[Tensor, ...]
Transform = Callable[[Tensor], Tensor] | None


class ImageSet(torch.utils.data.Dataset):
    """A split of a benchmark, held whole on one device.

    Args:
        data: (n, height, width, channels) uint8.
        targets: (n,) int64.
        transform: augmentation and normalisation of a float batch (batch, channels, height, width) in [0, 1].

    `data`, `targets` and `extra_return_fields` may be changed between tasks: batches are cut when they are asked for.
    """

    def __init__(self, data: Tensor, targets: Tensor, transform: Transform = None) -> None:
        self.data = data
        self.targets = targets
        self.transform = transform
        self.extra_return_fields: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.data)

    @property
    def device(self) -> torch.device:
        """Where the images are."""
        return torch.as_tensor(self.data).device

    def add_extra_return_field(self, name: str, values: Tensor) -> None:
        """Attach one value per image; it arrives in `observe` as the keyword `name`."""
        setattr(self, name, values)
        self.extra_return_fields = (*self.extra_return_fields, name)

    def append(self, images: Tensor, labels: Tensor) -> None:
        """Add images, floats in [0, 1], (batch, channels, height, width), and their labels, in the form that `data` has."""
        data = torch.as_tensor(self.data)
        rows = images.permute(0, 2, 3, 1).to(data.device)
        rows = rows.mul(255).round().to(torch.uint8) if data.dtype == torch.uint8 else rows.to(data.dtype)
        self.data = torch.cat([data, rows.reshape(-1, *data.shape[1:])])
        self.targets = torch.cat([self.targets, labels.to(self.targets)])

    def images(self, indexes: Tensor) -> Tensor:
        """Return floats in [0, 1], (batch, channels, height, width), channels last in memory."""
        return to_float(torch.as_tensor(self.data)[indexes].permute(0, 3, 1, 2))

    def batch(self, indexes: Tensor) -> Batch:
        """Return (transformed images, labels, images in [0, 1], then the extra fields) for these rows."""
        raw = self.images(indexes)
        ready = raw if self.transform is None else self.transform(raw)
        extras = (torch.as_tensor(getattr(self, name))[indexes] for name in self.extra_return_fields)
        return (ready, torch.as_tensor(self.targets)[indexes], raw, *extras)

    def __getitem__(self, index: int) -> Batch:
        rows = self.batch(torch.tensor([index], device=self.device))
        return tuple(column[0] for column in rows)


class BatchLoader:
    """Iterates over an `ImageSet` in batches.

    Args:
        dataset: the images.
        batch_size: images per batch; the last may have fewer.
        generator: draws a new order at each pass; None keeps the stored order.
        drop_last: leave out the last batch if it is short.
    """

    def __init__(
        self, dataset: ImageSet, batch_size: int, generator: torch.Generator | None = None, drop_last: bool = False
    ) -> None:
        self.dataset = dataset
        self.batch_size = batch_size
        self.generator = generator
        self.drop_last = drop_last
        self._place: tuple[Tensor, int] | None = None  # order of the pass at hand, batches given
        self._from: tuple[Tensor, int] | None = None  # where the next pass goes on

    def __len__(self) -> int:
        full, rest = divmod(len(self.dataset), self.batch_size)
        return full + (rest > 0 and not self.drop_last)

    def order(self) -> Tensor:
        """Return the indices of one pass, on the images' device."""
        device = self.dataset.device
        if self.generator is None:
            return torch.arange(len(self.dataset), device=device)
        return torch.randperm(len(self.dataset), generator=self.generator).to(device)

    def __iter__(self) -> Iterator[Batch]:
        begun, self._from = self._from, None
        order, first = begun or (self.order(), 0)
        for number, indexes in enumerate(order.split(self.batch_size)):
            if first <= number < len(self):
                self._place = (order, number + 1)
                yield self.dataset.batch(indexes)

    def state_dict(self) -> dict[str, Any]:
        """Return where the pass at hand stands: its order, how many batches were given, and the generator of the next orders."""
        order, given = self._place or (None, 0)
        generator = self.generator.get_state() if self.generator is not None else None
        return {"order": order, "given": given, "generator": generator, "images": len(self.dataset)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Let the next pass go on where `state_dict` was taken.

        Raises:
            ValueError: that was another set of images.
        """
        if state["images"] != len(self.dataset):
            raise ValueError(f"the pass to go on with was over {state['images']} images, and there are {len(self.dataset)}")
        if state["order"] is not None:
            self._place = self._from = (state["order"].to(self.dataset.device), state["given"])
        if self.generator is not None:
            self.generator.set_state(state["generator"].cpu())


def select(images: ImageSet, first: int, past_last: int, **changes: Any) -> ImageSet:
    """Return the images whose label lies in [first, past_last), as a set of its own."""
    chosen = (images.targets >= first) & (images.targets < past_last)
    subset = ImageSet(images.data[chosen], images.targets[chosen], images.transform)
    for name, value in changes.items():
        setattr(subset, name, value)
    return subset
