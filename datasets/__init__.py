"""Benchmarks by name: every file here that defines a `ContinualDataset` is one.

`configs/<name>/<config>.yaml` sets a benchmark's facts (upper-case keys) and the flags that belong to them (lower case).
"""

from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

from datasets.utils.continual_dataset import ContinualDataset
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
    return _registry.get(name.dataset if isinstance(name, Namespace) else name)


def register_dataset(name: str) -> Callable[[type[ContinualDataset]], type[ContinualDataset]]:
    """Decorate a class to make it a benchmark without a file in `datasets/`."""
    return _registry.register(name)


def get_config_names(dataset: str) -> list[str]:
    """Return the names that `--dataset_config` accepts for a benchmark."""
    return config_names(CONFIGS / canonical(dataset))


def config_path(dataset: str, config: str | None) -> Path | None:
    """Return the YAML file of a config: by name, by path, or `default`; None where there is no default.

    Raises:
        ValueError: no such config; says which there are.
    """
    if config and config.endswith((".yaml", ".yml")):
        if not Path(config).is_file():
            raise ValueError(f"--dataset_config {config}: no such file")
        return Path(config)
    path = CONFIGS / canonical(dataset) / f"{config or 'default'}.yaml"
    if path.is_file():
        return path
    if config is None:
        return None
    raise ValueError(f"unknown --dataset_config {config!r} for {dataset}; {nearest(config, get_config_names(dataset))}")


def read_config(dataset: str, config: str | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a config's facts and its flags.

    Raises:
        ValueError: no such config, or a fact that no benchmark has; names file and key.
    """
    path = config_path(dataset, config)
    if path is None:
        return {}, {}
    content = read_yaml(path)
    facts = {key: value for key, value in content.items() if key.isupper()}
    unknown = [key for key in facts if key not in FACTS]
    if unknown:
        raise ValueError(f"{path}: unknown key {unknown[0]!r}; a benchmark's facts are {', '.join(FACTS)}")
    return facts, {key: value for key, value in content.items() if key not in facts}


def get_dataset(args: Namespace) -> ContinualDataset:
    """Build the benchmark that `args.dataset` names, as `args.dataset_config` has it; reads no images yet."""
    cls = get_dataset_class(args)
    facts, _ = read_config(args.dataset, getattr(args, "dataset_config", None))
    return type(cls.__name__, (cls,), {**facts, "__doc__": cls.__doc__, "__module__": cls.__module__})(args)


__all__ = [
    "ContinualDataset", "config_path", "get_config_names", "get_dataset", "get_dataset_class", "get_dataset_names",
    "read_config", "register_dataset",
]  # fmt: skip
