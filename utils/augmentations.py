"""Image transforms on whole batches, on the batch's own device.

A transform is made from the list that a data set or a YAML file names (torchvision's names and arguments). Crop, flip and
normalisation run as one gather; any other transform is kornia's of the same name.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from utils import randomness

Spec = str | dict[str, dict[str, Any]]
FUSED = ("ToPILImage", "ToTensor", "RandomCrop", "RandomHorizontalFlip", "Normalize")


def to_float(images: Tensor) -> Tensor:
    """Turn uint8 images into floats in [0, 1], channels last in memory; floats pass unchanged.

    Args:
        images: (batch, channels, height, width), uint8 or float.
    """
    if images.dtype != torch.uint8:
        return images
    if images.dim() == 4:
        return images.to(torch.float32, memory_format=torch.channels_last).div_(255)
    return images.to(torch.float32).div_(255)


def normalize_images(images: Tensor, mean: Tensor, std: Tensor) -> Tensor:
    """Return (x - mean) / std per channel. `mean`, `std`: (channels, 1, 1); images: (batch, channels, height, width)."""
    return images.sub(mean).div_(std)


def crop_and_flip(images: Tensor, top: Tensor, left: Tensor, flip: Tensor, size: int, padding: int) -> Tensor:
    """Pad with zeros, cut a `size` x `size` window out of each image and mirror some, in one gather.

    Args:
        images: (batch, channels, height, width), uint8 or float.
        top, left: (batch,) int64, the window's corner in the padded image.
        flip: (batch,) bool.

    Returns:
        (batch, channels, size, size), channels last in memory.
    """
    batch = len(images)
    padded = torch.nn.functional.pad(images, (padding,) * 4).permute(0, 2, 3, 1)
    steps = torch.arange(size, device=images.device)
    rows = top[:, None] + steps
    columns = left[:, None] + torch.where(flip[:, None], size - 1 - steps, steps)
    which = torch.arange(batch, device=images.device)[:, None, None]
    return padded[which, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


def random_crop(images: Tensor, size: int, padding: int, generator: torch.Generator | None = None) -> Tensor:
    """Cut a random window out of each zero-padded image (torchvision's RandomCrop, drawn for each image)."""
    top, left = _corners(images, size, padding, generator)
    never = torch.zeros(len(images), dtype=torch.bool, device=images.device)
    return crop_and_flip(images, top, left, never, size, padding)


def random_flip(images: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Mirror each image left to right with probability one half."""
    flip = torch.rand(len(images), device=images.device, generator=generator) < 0.5
    return torch.where(flip[:, None, None, None], images.flip(3), images)


def _corners(images: Tensor, size: int, padding: int, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
    """Draw the window's corner for each image. Raises ValueError when the window exceeds the padded image."""
    spare = [images.shape[axis] + 2 * padding - size for axis in (2, 3)]
    if min(spare) < 0:
        raise ValueError(f"RandomCrop: size {size} exceeds the padded image {tuple(images.shape[2:])} + 2 x {padding}")
    draw = [torch.randint(n + 1, (len(images),), device=images.device, generator=generator) for n in spare]
    return draw[0], draw[1]


class BatchTransform:
    """A list of torchvision-named transforms, applied to a batch (float in [0, 1], or uint8).

    Args:
        specs: names, or `{name: arguments}`, in order.
        stream: name of the random generator that it draws from.

    Raises:
        ValueError: a name that neither this class nor kornia knows.
    """

    def __init__(self, specs: Sequence[Spec], stream: str = "augmentation") -> None:
        self.specs = [_name_and_arguments(spec) for spec in specs]
        self.stream = stream
        self.mean, self.std = _normalisation(self.specs)
        names = [name for name, _ in self.specs]
        self._extra: list[Callable[[Tensor], Tensor]] = [
            _kornia(name, arguments) for name, arguments in self.specs if name not in FUSED
        ]
        self.crop: dict[str, Any] | None = dict(self.specs).get("RandomCrop")
        self.flip = "RandomHorizontalFlip" in names
        self._constants: dict[torch.device, tuple[Tensor, Tensor]] = {}

    def with_stream(self, stream: str) -> "BatchTransform":
        """Return the same transform, drawing from another generator."""
        return BatchTransform([{name: arguments} for name, arguments in self.specs], stream)

    @property
    def deterministic(self) -> bool:
        """Whether the same batch always gives the same result."""
        return not (self.crop or self.flip or self._extra)

    def __call__(self, images: Tensor) -> Tensor:
        """Transform a (batch, channels, height, width) tensor; returns floats of the same layout."""
        images = self._crop_and_flip(images)
        images = to_float(images)
        for transform in self._extra:
            images = transform(images)
        if self.mean is None:
            return images
        return normalize_images(images, *self._mean_and_std(images))

    def _crop_and_flip(self, images: Tensor) -> Tensor:
        if not (self.crop or self.flip):
            return images
        generator = randomness.generator(self.stream, images.device)
        size, padding = (self.crop["size"], self.crop.get("padding") or 0) if self.crop else (images.shape[-1], 0)
        top, left = _corners(images, size, padding, generator)
        flip = torch.rand(len(images), device=images.device, generator=generator) < (0.5 if self.flip else 0.0)
        return crop_and_flip(images, top, left, flip, size, padding)

    def _mean_and_std(self, images: Tensor) -> tuple[Tensor, Tensor]:
        if images.device not in self._constants:
            column = [torch.tensor(v, dtype=torch.float32, device=images.device).view(-1, 1, 1) for v in (self.mean, self.std)]
            self._constants[images.device] = (column[0], column[1])
        return self._constants[images.device]

    def __repr__(self) -> str:
        return f"BatchTransform({[{name: arguments} if arguments else name for name, arguments in self.specs]})"


def _name_and_arguments(spec: Spec) -> tuple[str, dict[str, Any]]:
    if isinstance(spec, str):
        return spec, {}
    if len(spec) != 1:
        raise ValueError(f"a transform is a name or {{name: arguments}}, not {spec!r}")
    name, arguments = next(iter(spec.items()))
    return name, dict(arguments or {})


def _normalisation(specs: Sequence[tuple[str, dict[str, Any]]]) -> tuple[Any, Any]:
    arguments = dict(specs).get("Normalize", {})
    return arguments.get("mean"), arguments.get("std")


def _kornia(name: str, arguments: dict[str, Any]) -> Callable[[Tensor], Tensor]:
    """Return kornia's transform of that name."""
    import kornia.augmentation  # half a second, so only where a YAML names such a transform

    if not hasattr(kornia.augmentation, name):
        raise ValueError(f"unknown transform {name!r}: use one of {', '.join(FUSED)} or a name from kornia.augmentation")
    return getattr(kornia.augmentation, name)(**arguments)


def apply_transform(images: Tensor, transform: Callable[[Tensor], Tensor] | None, autosqueeze: bool = False) -> Tensor:
    """Apply a batch transform, or a per-image callable image by image; None leaves the batch as it is.

    Args:
        images: (batch, channels, height, width), or one image (channels, height, width).
        transform: a `BatchTransform`, any callable on one image, or None.
        autosqueeze: drop the batch axis of a single image from the result.
    """
    if transform is None:
        return to_float(images)
    single = images.dim() == 3
    batch = images[None] if single else images
    if isinstance(transform, BatchTransform):
        result = transform(batch)
    else:
        result = torch.stack([transform(image) for image in to_float(batch)])
    return result[0] if single and autosqueeze else result


def normalize(images: Tensor, mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """Normalise a batch with plain lists of numbers."""
    column = [torch.tensor(values, dtype=images.dtype, device=images.device).view(-1, 1, 1) for values in (mean, std)]
    return normalize_images(images, column[0], column[1])
