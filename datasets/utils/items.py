"""Data sets that are read item by item, as files written for Mammoth have them, wrapped to stand where an `ImageSet` does.

Such a file makes a training and a test set (torch data sets with `data` and `targets`), and ends in `store_masked_loaders`.
"""

import copy
import functools
import inspect
import random
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from datasets.utils.image_set import Batch, BatchLoader, ImageSet
from utils import randomness

OWN = ("dataset", "train", "run_device", "indexes", "extra_return_fields")


@contextmanager
def drawing_from(seed: int) -> Iterator[None]:
    """Within this block the global generators start from `seed`; afterwards they stand where they stood."""
    state = randomness.global_state()
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)
    try:
        yield
    finally:
        randomness.restore_global_state(state)


def next_seed(stream: str) -> int:
    """Draw a seed from a named generator of the run."""
    return int(torch.randint(2**62, (1,), generator=randomness.generator(stream)))


class MammothDatasetWrapper(ImageSet):
    """A torch data set whose items are (image, label, image in [0, 1]) or (image, label).

    What is not the wrapper's own is read from the data set and written to it: `data`, `targets`, `transform`, ...

    Args:
        ext_dataset: the data set, with `data` and `targets`, one entry an item.
        train: whether its images are for training.

    Raises:
        ValueError: it has no `data` or no `targets`, or sorts its items into tasks by itself (`task_ids`).
    """

    dataset: Any

    def __init__(self, ext_dataset: Any, train: bool = False) -> None:
        missing = [name for name in ("data", "targets") if not hasattr(ext_dataset, name)]
        if missing or hasattr(ext_dataset, "task_ids"):
            why = f"has no {' and no '.join(missing)}" if missing else "has task_ids, which are not read here"
            raise ValueError(f"the data set {type(ext_dataset).__name__} {why}")
        self.dataset = ext_dataset
        self.train = train
        self.run_device = torch.device("cpu")
        self.indexes = torch.arange(len(ext_dataset))
        self.extra_return_fields = ()
        self.targets = ext_dataset.targets

    def __getattr__(self, name: str) -> Any:
        if name == "dataset":  # a copy that is still empty
            raise AttributeError(name)
        return getattr(self.dataset, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "targets":
            value = torch.as_tensor(np.asarray(value)).long()
        elif name == "data":
            value = alike(value, self.dataset.data)
        own = name in OWN or not hasattr(self.dataset, name)
        object.__setattr__(self if own else self.dataset, name, value)

    def __copy__(self) -> "MammothDatasetWrapper":
        other = object.__new__(type(self))
        vars(other).update(vars(self), dataset=copy.copy(self.dataset))
        return other

    def __len__(self) -> int:
        return len(self.targets)

    @property
    def device(self) -> torch.device:
        """Where indices are wanted: items are read one by one, on the host."""
        return torch.device("cpu")

    def subset(self, rows: Tensor) -> "MammothDatasetWrapper":
        """Return the items at these places as a set of its own. `rows`: int64 indices."""
        other = copy.copy(self)
        other.data, other.targets, other.indexes = chosen(self.data, rows), self.targets[rows], self.indexes[rows]
        return other

    def images(self, indexes: Tensor) -> Tensor:
        """Return the images in [0, 1], (batch, channels, height, width)."""
        return self.batch(indexes)[2]

    def batch(self, indexes: Tensor) -> Batch:
        """Return (images, labels, images in [0, 1], then the extra fields) of these items, on the run's device.

        Whatever the items draw is drawn from a generator of the run, one for training and one for test images.
        """
        with drawing_from(next_seed("augmentation" if self.train else "test augmentation")):
            items = [self.dataset[index] for index in indexes.tolist()]
        ready = torch.stack([as_tensor(item[0]) for item in items])
        raw = torch.stack([as_tensor(item[2]) for item in items]) if len(items[0]) > 2 else ready
        labels = torch.tensor([int(item[1]) for item in items])
        extras = [torch.as_tensor(getattr(self, name))[indexes] for name in self.extra_return_fields]
        ready, labels, raw, *extras = (column.to(self.run_device) for column in (ready, labels, raw, *extras))
        return (ready, labels, raw, *extras)


def as_tensor(image: Any) -> Tensor:
    """Return an image as a tensor; one of PIL's as floats in [0, 1], (channels, height, width)."""
    if isinstance(image, Tensor):
        return image
    from torchvision.transforms import functional  # a second of imports, so only here

    return functional.to_tensor(image)


def chosen(values: Any, rows: Tensor) -> Any:
    """Return the entries of a tensor, an array or a list at these places."""
    if isinstance(values, Tensor):
        return values[rows]
    return values[rows.numpy()] if isinstance(values, np.ndarray) else [values[row] for row in rows.tolist()]


def alike(values: Any, pattern: Any) -> Any:
    """Return values as what `pattern` is: a tensor, an array or a list."""
    if isinstance(pattern, Tensor):
        return torch.as_tensor(values)
    return np.asarray(values) if isinstance(pattern, np.ndarray) else list(values)


class ItemTransform:
    """A transform of one image, applied to each image of a batch; what it draws comes from the replay's generator.

    Args:
        transform: takes an image in [0, 1]; if it begins with torchvision's ToPILImage, it gets 8-bit images, which that keeps as
            they are (it cuts floats off).
    """

    def __init__(self, transform: Callable[[Any], Any]) -> None:
        self.transform = transform
        steps = getattr(transform, "transforms", [transform])
        self.takes_bytes = type(steps[0]).__name__ == "ToPILImage"

    def __call__(self, images: Tensor) -> Tensor:
        """Transform (batch, channels, height, width), or one image (channels, height, width), in [0, 1]."""
        if images.dim() == 3:
            return self(images[None])[0]
        given = images.mul(255).round().to(torch.uint8) if self.takes_bytes and images.is_floating_point() else images
        with drawing_from(next_seed("replay_augmentation")):
            made = torch.stack([as_tensor(self.transform(image)) for image in given.cpu()])
        return made.to(images.device)


def store_masked_loaders(train_dataset: Any, test_dataset: Any, setting: Any) -> tuple[BatchLoader, BatchLoader]:
    """Hand a task's training and test set over to the benchmark that made them; it picks the task's classes.

    Returns:
        The training loader and the test loader.
    """
    return setting.take(MammothDatasetWrapper(train_dataset, train=True), MammothDatasetWrapper(test_dataset))


def fix_class_names_order(class_names: Sequence[str], args: Namespace) -> list[str]:
    """Return all classes' names in the order of training labels."""
    return [class_names[label] for label in getattr(args, "class_order", None) or range(len(class_names))]


def set_default_from_args(arg_name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a benchmark's method that returns the default of a flag, with or without `self`."""

    def mark(function: Callable[..., Any]) -> Callable[..., Any]:
        takes_self = bool(inspect.signature(function).parameters)

        @functools.wraps(function)
        def method(*instance: Any) -> Any:
            return function(*(instance or (None,))) if takes_self else function()

        vars(method)["default_of"] = arg_name
        return method

    return mark


__all__ = [
    "ItemTransform", "MammothDatasetWrapper", "alike", "chosen", "drawing_from", "fix_class_names_order", "set_default_from_args",
    "store_masked_loaders",
]  # fmt: skip
