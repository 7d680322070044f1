"""Benchmarks by name: every file here that defines a `ContinualDataset` is one.

`configs/<name>/<config>.yaml` sets a benchmark's facts (upper-case keys) and the flags that belong to them (lower case).
"""

import json
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from datasets.utils.continual_dataset import ContinualDataset
from datasets.utils.dropped_in import DroppedIn, adapted, composed, full_size
from utils.augmentations import BatchTransform
from utils.registry import Registry, canonical, nearest
from utils.yaml_files import ROOT, config_names, read_yaml

FACTS = ("N_CLASSES_PER_TASK", "N_TASKS", "N_CLASSES", "SIZE", "TRANSFORM", "TEST_TRANSFORM")
CONFIGS = ROOT / "datasets" / "configs"

_registry: Registry[ContinualDataset] = Registry("data set", __name__, __path__, ContinualDataset)


def get_dataset_names() -> dict[str, type[ContinualDataset] | Exception]:
    """Return each benchmark's class, or the exception that kept its file from loading, by name."""
    return _registry.entries()


def get_dataset_class(name: str | Namespace) -> type[ContinualDataset]:
    """Return the class of a benchmark.

    Raises:
        ValueError: no such benchmark, or its file does not load; says which there are, or why.
    """
    cls: Any = _registry.get(name.dataset if isinstance(name, Namespace) else name)
    return adapted(cls)


def add_datasets_path(folder: str) -> list[str]:
    """Look for benchmarks in a folder too, before this one; returns the names of files here that it hides.

    Raises:
        ValueError: no such folder, or no benchmark in it.
    """
    return _registry.add_folder(folder)


def added_folder(cls: type[ContinualDataset]) -> Path | None:
    """Return the folder, of those added, that a benchmark comes from; None for the benchmarks here."""
    return _registry.folder(cls)


def configs_folder(dataset: str) -> Path:
    """Return the folder of a benchmark's YAML files: beside its own file where that is in an added folder."""
    added = _registry.folder(get_dataset_class(dataset))
    return (added / "configs" if added else CONFIGS) / canonical(dataset)


def register_dataset(name: str) -> Callable[[type[ContinualDataset]], type[ContinualDataset]]:
    """Decorate a class to make it a benchmark without a file in `datasets/`."""
    return _registry.register(name)


def get_config_names(dataset: str) -> list[str]:
    """Return the names that `--dataset_config` accepts for a benchmark."""
    return config_names(configs_folder(dataset))


def config_path(dataset: str, config: str | None) -> Path | None:
    """Return the YAML file of a config: by name, by path, or `default`; None where there is no default.

    Raises:
        ValueError: no such config; says which there are.
    """
    if config and config.endswith((".yaml", ".yml")):
        if not Path(config).is_file():
            raise ValueError(f"--dataset_config {config}: no such file")
        return Path(config)
    path = configs_folder(dataset) / f"{config or 'default'}.yaml"
    if path.is_file():
        return path
    if config is None:
        return None
    raise ValueError(f"unknown --dataset_config {config!r} for {dataset}; {nearest(config, get_config_names(dataset))}")


def read_config(dataset: str, config: str | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a config's facts and its flags, on top of the defaults that a file written for Mammoth gives in its code.

    Raises:
        ValueError: no such config, or a fact that no benchmark has; names file and key.
    """
    path = config_path(dataset, config)
    cls = get_dataset_class(dataset)
    dropped_in = issubclass(cls, DroppedIn)
    defaults = cls.default_flags() if issubclass(cls, DroppedIn) else {}
    if path is None:
        return {}, defaults
    content = read_yaml(path)
    facts = {key: value for key, value in content.items() if key.isupper()}
    known = (*FACTS, *DroppedIn.MORE_FACTS) if dropped_in else FACTS
    unknown = [key for key in facts if key not in known]
    if unknown:
        raise ValueError(f"{path}: unknown key {unknown[0]!r}; a benchmark's facts are {', '.join(known)}")
    if dropped_in and isinstance(facts.get("SIZE"), list):
        facts["SIZE"] = list(full_size(cls, facts["SIZE"]))
    for key, value in facts.items():
        _check_fact(path, key, value)
    size = None if dropped_in else facts.get("SIZE", getattr(cls, "SIZE", None))
    check_transforms(path, {**facts, "SIZE": size})
    if not dropped_in:
        _check_normalised_alike(path, facts.get("TRANSFORM", cls.TRANSFORM), facts.get("TEST_TRANSFORM", cls.TEST_TRANSFORM))
    return facts, defaults | {key: value for key, value in content.items() if key not in facts}


def check_transforms(path: Path | None, facts: dict[str, Any]) -> None:
    """Raise ValueError, naming the file, for a transform of a config's that fails on images of the facts' SIZE (None: unknown)."""
    for key in facts.keys() & {"TRANSFORM", "TEST_TRANSFORM"}:
        _check_transform(path, key, facts[key], facts["SIZE"])


def _check_normalised_alike(path: Path, train: Any, test: Any) -> None:
    """Raise ValueError if training images are normalised and test images are not, or the other way round."""
    has = ["Normalize" in json.dumps(specs, default=str) for specs in (train, test)]
    if has[0] != has[1]:
        lacking = "TEST_TRANSFORM" if has[0] else "TRANSFORM"
        raise ValueError(f"{path}: {lacking} has no Normalize and the other list has one: training and test images would differ")


def _check_fact(path: Path, key: str, value: Any) -> None:
    """Raise ValueError, naming file and key, for a fact of the wrong kind."""
    entries = value if isinstance(value, list) else [value]
    whole = bool(entries) and all(isinstance(entry, int) and not isinstance(entry, bool) and entry > 0 for entry in entries)
    if key in ("N_TASKS", "N_CLASSES") and not (whole and isinstance(value, int)):
        raise ValueError(f"{path}: {key}: {value!r} is not a whole number above 0")
    if key == "N_CLASSES_PER_TASK" and not whole:
        raise ValueError(f"{path}: {key}: {value!r} is neither a whole number above 0 nor a list of them, one a task")
    if key == "SIZE" and not (whole and len(entries) == 3):
        raise ValueError(f"{path}: {key}: {value!r} is not [height, width, channels]")


def _check_transform(path: Path | None, key: str, value: Any, size: Sequence[int] | None) -> None:
    """Try a transform on two black images of the benchmark's size; without a size, only see whether torchvision has it.

    Raises:
        ValueError: that fails; names file and key.
    """
    if not isinstance(value, list) or not all(isinstance(spec, str | dict) for spec in value):
        raise ValueError(f"{path}: {key}: expected a list of names or {{name: {{argument: value}}}}, found {value!r}")
    try:
        if size is None:
            composed(value)
            return
        images = torch.zeros(2, size[2], size[0], size[1], dtype=torch.uint8)
        found = BatchTransform(value, "trial")(images).shape  # a stream of its own: a trial shifts no draw of a run
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"{path}: {key}: {str(error).splitlines()[0]}") from error
    if found != images.shape:
        raise ValueError(f"{path}: {key}: it gives {list(found[1:])} (channels, height, width), not {list(images.shape[1:])}")


def get_dataset(args: Namespace) -> ContinualDataset:
    """Build the benchmark that `args.dataset` names, as `args.dataset_config` has it; reads no images yet."""
    cls = get_dataset_class(args)
    facts, _ = read_config(args.dataset, getattr(args, "dataset_config", None))
    facts |= cls.facts_from(args)
    return type(cls.__name__, (cls,), {**facts, "__doc__": cls.__doc__, "__module__": cls.__module__})(args)


__all__ = [
    "ContinualDataset", "add_datasets_path", "added_folder", "check_transforms",
    "config_path", "configs_folder", "get_config_names", "get_dataset",
    "get_dataset_class", "get_dataset_names",
    "read_config", "register_dataset",
]  # fmt: skip
