"""Mammoth's import surface: buffer, arguments, metrics, evaluation, augmentation; and the random generators."""

import os


def binary_to_boolean_type(value: str | bool | int) -> int:
    """Read a yes/no flag: 0, 1, true, false, yes, no (any case). Returns 0 or 1.

    Raises:
        ValueError: anything else.
    """
    words = {"0": 0, "1": 1, "false": 0, "true": 1, "no": 0, "yes": 1, "f": 0, "t": 1, "n": 0, "y": 1}
    word = str(value).lower()
    if word not in words:
        raise ValueError(f"{value!r} is not a yes or a no; use 0 or 1")
    return words[word]


def none_or_float(value: str | float | None) -> float | None:
    """Read a float, or None from the word `none`."""
    return None if value is None or str(value).lower() == "none" else float(value)


def smart_joint(*parts: str) -> str:
    """Join the parts of a path."""
    return os.path.join(*parts)


def create_if_not_exists(path: str) -> None:
    """Make a folder and its parents."""
    os.makedirs(path, exist_ok=True)


def setup_logging() -> None:
    """Send log lines to stdout; see `utils.loggers.setup_logging`."""
    from utils.loggers import setup_logging as set_up  # here, because that module imports this package

    set_up()
