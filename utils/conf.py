"""Where a run happens: device, folders, seeds, and loaders whose order depends on the seed alone."""

import logging
import os
from argparse import Namespace
from functools import cache, lru_cache
from typing import Any

import torch

from utils import randomness

_base_path = "./data/"


@lru_cache(maxsize=1)
def default_device() -> torch.device:
    """Return the first CUDA device, else Apple's, else the CPU, as a tensor there names it."""
    cuda, apple = torch.cuda.is_available(), torch.backends.mps.is_available()
    return torch.empty(0, device="cuda:0" if cuda else "mps" if apple else "cpu").device


def get_device(avail_devices: str | None = None) -> torch.device:
    """Return the device named by the user (`cpu`, `cuda:1`, or a bare CUDA index such as `1`), or the default one.

    It is named as a tensor there names it (`cuda:0` for `cuda`): generators are kept by that name.

    Raises:
        ValueError: the device is unknown or absent on this machine.
    """
    if not avail_devices:
        return default_device()
    name = avail_devices.split(",")[0].strip()
    name = f"cuda:{name}" if name.isdigit() else name
    try:
        return torch.empty(0, device=torch.device(name)).device
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"--device {avail_devices}: not to be had here ({reason}); try --device cpu") from error


def base_path(override: str | None = None) -> str:
    """Return the folder for data and results with a trailing slash; `override` sets it for the process."""
    global _base_path
    if override is not None:
        _base_path = os.path.join(override, "")
    return _base_path


def set_random_seed(seed: int) -> None:
    """Seed every generator of the process from one number."""
    randomness.start(seed)


@cache
def _warn(message: str) -> None:
    logging.getLogger("mammoth").warning(message)


def warn_once(*messages: object) -> None:
    """Log a warning the first time that this very message is given."""
    _warn(" ".join(str(message) for message in messages))


def create_seeded_dataloader(
    args: Namespace, dataset: torch.utils.data.Dataset, non_verbose: bool = False, **options: Any
) -> torch.utils.data.DataLoader:
    """Make a torch DataLoader with a generator of its own, so that its order does not depend on other draws."""
    if getattr(args, "seed", None) is not None and "generator" not in options:
        options["generator"] = torch.Generator().manual_seed(randomness.derive_seed(args.seed, "dataloader"))
    options.setdefault("num_workers", 0)
    return torch.utils.data.DataLoader(dataset, **options)
