"""Image transforms on whole batches, on the batch's own device.

A transform is made from the list that a data set or a YAML file names (torchvision's names and arguments). Crop, flip and
normalisation run as one gather; any other transform is kornia's of the same name.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from utils import randomness

Spec = str | dict[str, dict[str, Any]]
KNOWN: dict[str, tuple[str, ...]] = {
    "ToPILImage": (),
    "ToTensor": (),
    "RandomCrop": ("size", "padding"),
    "RandomHorizontalFlip": ("p",),
    "Normalize": ("mean", "std"),
}
REQUIRED = {"RandomCrop": ("size",), "Normalize": ("mean", "std")}
GEOMETRY = ("RandomCrop", "RandomHorizontalFlip")
ALWAYS = ("RandomRotation", "RandomAffine")  # in torchvision; kornia's of that name change every second image, unless told


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


def crop_and_flip(images: Tensor, top: Tensor, left: Tensor, flip: Tensor, size: int | tuple[int, int], padding: int) -> Tensor:
    """Pad with zeros, cut a window out of each image and mirror some, in one gather.

    Args:
        images: (batch, channels, height, width), uint8 or float.
        top, left: (batch,) int64, the window's corner in the padded image.
        flip: (batch,) bool.
        size: the window's height and width, or one number for both.

    Returns:
        (batch, channels, height of the window, its width), channels last in memory.
    """
    height, width = _pair(size)
    padded = torch.nn.functional.pad(images, (padding,) * 4).permute(0, 2, 3, 1)
    rows = top[:, None] + torch.arange(height, device=images.device)
    steps = torch.arange(width, device=images.device)
    columns = left[:, None] + torch.where(flip[:, None], width - 1 - steps, steps)
    which = torch.arange(len(images), device=images.device)[:, None, None]
    return padded[which, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2)


def _pair(size: Any) -> tuple[int, int]:
    """Return (height, width) of a size given as one number or as two."""
    return (size, size) if isinstance(size, int) else (int(size[0]), int(size[1]))


def random_crop(images: Tensor, size: int, padding: int, generator: torch.Generator | None = None) -> Tensor:
    """Cut a random window out of each zero-padded image (torchvision's RandomCrop, drawn for each image)."""
    top, left = _corners(images, size, padding, generator)
    never = torch.zeros(len(images), dtype=torch.bool, device=images.device)
    return crop_and_flip(images, top, left, never, size, padding)


def random_flip(images: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """Mirror each image left to right with probability one half."""
    flip = torch.rand(len(images), device=images.device, generator=generator) < 0.5
    return torch.where(flip[:, None, None, None], images.flip(3), images)


def _corners(images: Tensor, size: Any, padding: int, generator: torch.Generator | None) -> tuple[Tensor, Tensor]:
    """Draw the window's corner for each image. Raises ValueError when the window exceeds the padded image."""
    spare = [images.shape[axis] + 2 * padding - side for axis, side in zip((2, 3), _pair(size), strict=True)]
    if min(spare) < 0:
        height, width = _pair(size)
        size = height if height == width else size
        raise ValueError(f"RandomCrop: size {size} exceeds the padded image {tuple(images.shape[2:])} + 2 x {padding}")
    draw = [torch.randint(n + 1, (len(images),), device=images.device, generator=generator) for n in spare]
    return draw[0], draw[1]


@dataclass(frozen=True)
class _CropAndFlip:
    """RandomCrop, RandomHorizontalFlip, or both, in one gather; without a crop the images keep their size."""

    size: tuple[int, int] | None
    padding: int
    flip: float
    stream: str

    def __call__(self, images: Tensor) -> Tensor:
        generator = randomness.generator(self.stream, images.device)
        size = self.size or (images.shape[2], images.shape[3])
        top, left = _corners(images, size, self.padding, generator)
        flip = torch.rand(len(images), device=images.device, generator=generator) < self.flip
        return crop_and_flip(images, top, left, flip, size, self.padding)


class _Normalize:
    """(x - mean) / std, the constants kept on each device that asked."""

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        self.mean, self.std = list(mean), list(std)
        self._constants: dict[torch.device, tuple[Tensor, Tensor]] = {}

    def __call__(self, images: Tensor) -> Tensor:
        if images.device not in self._constants:
            make = [torch.tensor(v, dtype=torch.float32, device=images.device).view(-1, 1, 1) for v in (self.mean, self.std)]
            self._constants[images.device] = (make[0], make[1])
        return normalize_images(to_float(images), *self._constants[images.device])


class _Kornia:
    """kornia's transform of that name, as often as torchvision's, from a stream of its own instead of the global generator."""

    def __init__(self, name: str, arguments: dict[str, Any], stream: str) -> None:
        import kornia.augmentation  # half a second, so only where a YAML names such a transform

        if not hasattr(kornia.augmentation, name):
            raise ValueError(f"unknown transform {name!r}: use one of {', '.join(KNOWN)} or a name from kornia.augmentation")
        often = {"p": 1.0} if name in ALWAYS else {}
        self.transform: Callable[[Tensor], Tensor] = getattr(kornia.augmentation, name)(**often | arguments)
        self.stream = stream

    def __call__(self, images: Tensor) -> Tensor:
        seed = int(torch.randint(2**62, (1,), generator=randomness.generator(self.stream)))
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            return self.transform(to_float(images))


class BatchTransform:
    """A list of torchvision-named transforms, applied in order to a batch (float in [0, 1], or uint8).

    Args:
        specs: names, or `{name: arguments}`, in order.
        stream: name of the random generator that it draws from.

    Raises:
        ValueError: a name that neither this class nor kornia knows, or an argument that the transform does not take.
    """

    def __init__(self, specs: Sequence[Spec], stream: str = "augmentation") -> None:
        self.specs = [_name_and_arguments(spec) for spec in specs]
        self.stream = stream
        for name, arguments in self.specs:
            _check_arguments(name, arguments)
        named = dict(self.specs)
        self.mean, self.std = (named.get("Normalize", {}).get(key) for key in ("mean", "std"))
        self._steps = self._compiled()

    def _compiled(self) -> list[Callable[[Tensor], Tensor]]:
        """Return the steps, crops and flips that follow each other made one."""
        steps: list[Callable[[Tensor], Tensor]] = []
        geometry: dict[str, dict[str, Any]] = {}
        for name, arguments in [*self.specs, ("", {})]:
            if name in GEOMETRY and name not in geometry:
                geometry[name] = arguments
                continue
            if geometry:
                steps.append(self._crop_and_flip(geometry))
                geometry = {name: arguments} if name in GEOMETRY else {}
            if name == "Normalize":
                steps.append(_Normalize(**arguments))
            elif name and name not in KNOWN:
                steps.append(_Kornia(name, arguments, self.stream))
        return steps

    def _crop_and_flip(self, geometry: dict[str, dict[str, Any]]) -> _CropAndFlip:
        crop, flip = geometry.get("RandomCrop"), geometry.get("RandomHorizontalFlip")
        size, padding = (_pair(crop["size"]), crop.get("padding") or 0) if crop else (None, 0)
        return _CropAndFlip(size, padding, 0.0 if flip is None else flip.get("p", 0.5), self.stream)

    def with_stream(self, stream: str) -> "BatchTransform":
        """Return the same transform, drawing from another generator."""
        return BatchTransform([{name: arguments} for name, arguments in self.specs], stream)

    @property
    def deterministic(self) -> bool:
        """Whether the same batch always gives the same result."""
        return all(isinstance(step, _Normalize) for step in self._steps)

    def __call__(self, images: Tensor) -> Tensor:
        """Transform a (batch, channels, height, width) tensor; returns floats of the same layout."""
        for step in self._steps:
            images = step(images)
        return to_float(images)

    def __repr__(self) -> str:
        return f"BatchTransform({[{name: arguments} if arguments else name for name, arguments in self.specs]})"


def _name_and_arguments(spec: Spec) -> tuple[str, dict[str, Any]]:
    if isinstance(spec, str):
        return spec, {}
    if len(spec) != 1:
        raise ValueError(f"a transform is a name or {{name: arguments}}, not {spec!r}")
    name, arguments = next(iter(spec.items()))
    return name, dict(arguments or {})


def _check_arguments(name: str, arguments: dict[str, Any]) -> None:
    """Raise ValueError for an argument that one of our own transforms does not take, or lacks."""
    if name not in KNOWN:
        return
    for key in arguments:
        if key not in KNOWN[name]:
            raise ValueError(f"{name} takes {', '.join(KNOWN[name]) or 'no arguments'}, not {key!r}")
    missing = [key for key in REQUIRED.get(name, ()) if key not in arguments]
    if missing:
        raise ValueError(f"{name} needs {missing[0]!r}")


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


def cutmix_data(
    x: Tensor, y: Tensor, alpha: float = 1.0, cutmix_prob: float = 0.5, force: bool = False
) -> tuple[Tensor, Tensor, Tensor, float]:
    """CutMix (Yun et al. 2019, arXiv 1905.04899, section 3.1): paste a box of another image of the batch into each.

    The box covers 1 - lambda of the image before it is clipped at the border, lambda ~ Beta(alpha, alpha), its centre uniform.

    Args:
        x: (batch, channels, height, width); y: (batch,).
        cutmix_prob: how often a batch is mixed at all; `force`: always.

    Returns:
        Images, their labels, the labels of the boxes, and the share of each image that is its own.
    """
    if alpha <= 0 or not (force or float(torch.rand(1)) < cutmix_prob):
        return x, y, y, 1.0
    height, width = x.shape[-2:]
    other = torch.randperm(len(x), device=x.device)
    share = float(torch.distributions.Beta(alpha, alpha).sample())
    sides = [int(side * (1 - share) ** 0.5) for side in (height, width)]
    centres = [int(torch.randint(side, (1,))) for side in (height, width)]
    (top, bottom), (left, right) = (
        (max(centre - side // 2, 0), min(centre + side // 2, whole))
        for centre, side, whole in zip(centres, sides, (height, width), strict=True)
    )
    mixed = x.clone()
    mixed[..., top:bottom, left:right] = x[other, :, top:bottom, left:right]
    return mixed, y, y[other], 1 - (bottom - top) * (right - left) / (height * width)
