"""Reads the YAML files of methods and benchmarks."""

from functools import cache
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent


class _Loader(yaml.SafeLoader):
    """YAML without numbers of base 60: `seeds: 10:15` is the range that it is on the command line, not 615."""

    def whole(self, node: yaml.ScalarNode) -> int | str:
        """Return the whole number, or the text where it has a colon."""
        return node.value if ":" in node.value else self.construct_yaml_int(node)

    def real(self, node: yaml.ScalarNode) -> float | str:
        """Return the number, or the text where it has a colon."""
        return node.value if ":" in node.value else self.construct_yaml_float(node)


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.whole)
_Loader.add_constructor("tag:yaml.org,2002:float", _Loader.real)


@cache
def _parsed(path: Path, stamp: float) -> Any:
    try:
        return yaml.load(path.read_text(encoding="utf-8"), _Loader)
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
