"""Named random generators: a draw for one purpose never shifts a draw for another.

Each purpose (initialisation, class order, stream order, augmentation, reservoir, replay, ...) has a generator of its own,
seeded from the run's `--seed` and the purpose's name. Two methods run with one seed therefore see the same images in the same
order, start from the same weights and keep the same memory, and their difference is paired.

What a method draws from the global generators of `random`, `numpy` and `torch` is its own affair: these are seeded under the
name "method".
"""

import hashlib
import random
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch


def derive_seed(seed: int, name: str) -> int:
    """Return a 63-bit seed that depends on the run's seed and on the purpose's name alone."""
    digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1


class Randomness:
    """The generators of one run, made when first asked for."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._generators: dict[tuple[str, str], torch.Generator] = {}

    def generator(self, name: str, device: torch.device | str = "cpu") -> torch.Generator:
        """Return the generator of a purpose on a device; the same object at each call."""
        key = (name, str(device))
        if key not in self._generators:
            generator = torch.Generator(device=device)
            generator.manual_seed(derive_seed(self.seed, name))
            self._generators[key] = generator
        return self._generators[key]

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Return the state of every generator made so far, keyed `name@device`."""
        return {f"{name}@{device}": generator.get_state() for (name, device), generator in self._generators.items()}

    def load_state_dict(self, state: dict[str, torch.Tensor], device: torch.device | str = "cpu") -> None:
        """Put every generator named in `state` back where it was; `device`: for those that were not on the CPU."""
        for key, value in state.items():
            name, place = key.rsplit("@", 1)
            self.generator(name, "cpu" if place == "cpu" else device).set_state(value.cpu())


def _gpus(device: torch.device | None) -> list[torch.device | int]:
    """Return the GPU that is meant: `device`, if it is one; without a device all that there are, once they are in use."""
    if device is not None:
        return [device] if device.type == "cuda" else []
    return list(range(torch.cuda.device_count())) if torch.cuda.is_initialized() else []


def global_state(device: torch.device | None = None) -> dict[str, Any]:
    """Return the state of the global generators of `random`, `numpy` and `torch`: the CPU's, and a GPU's (default: of all)."""
    version, words, gauss = random.getstate()
    kind, keys, place, has_gauss, cached = np.random.get_state()
    return {
        "random": [version, list(words), gauss],
        "numpy": [str(kind), torch.from_numpy(np.asarray(keys).astype(np.int64)), int(place), int(has_gauss), float(cached)],
        "torch": torch.get_rng_state(),
        "cuda": [torch.cuda.get_rng_state(gpu) for gpu in _gpus(device)],
    }


def restore_global_state(state: dict[str, Any], device: torch.device | None = None) -> None:
    """Put the global generators back where `global_state` found them; `device`: which GPU takes the state of the one."""
    version, words, gauss = state["random"]
    kind, keys, *rest = state["numpy"]
    random.setstate((version, tuple(words), gauss))
    np.random.set_state((kind, keys.numpy().astype(np.uint32), *rest))
    torch.set_rng_state(state["torch"])
    for gpu, value in zip(_gpus(device), state["cuda"], strict=False):  # none of GPUs that were not in use then
        torch.cuda.set_rng_state(value, gpu)


_current: Randomness | None = None


def start(seed: int) -> Randomness:
    """Begin a run: replace all named generators and seed the global ones under the name "method"."""
    global _current
    _current = Randomness(seed)
    own = derive_seed(seed, "method")
    random.seed(own)
    np.random.seed(own % 2**32)
    torch.manual_seed(own)
    return _current


def current() -> Randomness:
    """Return the run's generators; outside a run, a set seeded by the operating system."""
    global _current
    if _current is None:
        _current = Randomness(secrets.randbits(32))
    return _current


def generator(name: str, device: torch.device | str = "cpu") -> torch.Generator:
    """Return the current run's generator for a purpose."""
    return current().generator(name, device)


def fresh(name: str) -> torch.Generator:
    """Return a new CPU generator for a purpose, at its beginning: whoever asks again gets the same draws."""
    return torch.Generator().manual_seed(derive_seed(current().seed, name))


@contextmanager
def initialisation() -> Iterator[None]:
    """Within this block the global CPU generator is the one of "initialisation"; afterwards it stands where it stood."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed(current().seed, "initialisation"))
        yield


def distinct_indices(population: int, size: int, generator: torch.Generator) -> torch.Tensor:
    """Draw `size` distinct integers below `population` (all of them if there are fewer), in random order.

    The cost does not grow with the population while `size` is small beside it.

    Returns:
        int64 tensor of shape (min(size, population),) on the CPU.
    """
    if 2 * size >= population:
        return torch.randperm(population, generator=generator)[:size]
    chosen: dict[int, None] = {}
    while len(chosen) < size:
        for index in torch.randint(population, (size,), generator=generator).tolist():
            chosen[index] = None
            if len(chosen) == size:
                break
    return torch.tensor(list(chosen), dtype=torch.int64)
