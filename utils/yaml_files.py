"""Reads the YAML files of methods and benchmarks."""

from functools import cache
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent


@cache
def _parsed(path: Path, stamp: float) -> Any:
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # of text that is none, dates that are none, endless brackets
        reason = " ".join(str(error).split())
        raise ValueError(f"{path} is no valid YAML: {reason}") from error


def read_yaml(path: Path) -> dict[str, Any]:
    """Return a YAML file's mapping ({} for an empty file).

    Raises:
        ValueError: no valid YAML, or not a mapping; names the file.
        FileNotFoundError: no such file.
    """
    content = _parsed(path, path.stat().st_mtime)
    if content is None:
        return {}
    if not isinstance(content, dict) or not all(isinstance(key, str | int) for key in content):
        raise ValueError(f"{path}: expected `key: value` lines, found a {type(content).__name__}")
    return dict(content)


def config_names(folder: Path) -> list[str]:
    """Return the names of the YAML files in a folder, without their ending."""
    return sorted(path.stem for path in folder.glob("*.yaml"))
