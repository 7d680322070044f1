"""The engine: how a run happens. It knows no single method and no single benchmark.

As a library: `from mammoth import load_runner, train, ...`. Names are looked up when asked for.
"""

import importlib
import importlib.util
import sys
from types import TracebackType
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "mammoth.library": ("get_avail_args", "load_runner", "train"),
    "models": ("ContinualModel", "get_model_names", "register_model"),
    "datasets": ("ContinualDataset", "get_dataset_names", "register_dataset"),
    "datasets.utils.continual_dataset": ("MammothDatasetWrapper", "fix_class_names_order", "store_masked_loaders"),
    "datasets.utils": ("set_default_from_args",),
    "backbone": ("MammothBackbone", "get_backbone_names", "register_backbone"),
    "utils.args": ("add_rehearsal_args",),
    "utils.buffer": ("Buffer",),
    "utils.conf": ("base_path", "get_device"),
}
_WHERE = {name: module for module, names in _HOMES.items() for name in names}


NEEDED = ("numpy", "torch", "yaml")  # what an environment that is not the project's lacks


def not_installed(package: str) -> str:
    """Return the line on a missing package."""
    how = "activate the environment (. .venv/bin/activate), or make it: bash scripts/quickstart.sh"
    return f"the package {package!r} is not installed for {sys.executable}; {how}"


def _check_environment() -> None:
    """End a command `python -m mammoth...` whose Python lacks what all of them import; Python imports this file before theirs."""
    lacking = next((name for name in NEEDED if importlib.util.find_spec(name) is None), None)
    if lacking:
        sys.stderr.write(f"error: {not_installed(lacking)}\n")
        raise SystemExit(2)


def _say_interrupted(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Say in a line what a Ctrl-C did that came while a command still imported torch; show every other error as Python does."""
    if issubclass(kind, KeyboardInterrupt):
        sys.stderr.write("interrupted\n")
    else:
        sys.__excepthook__(kind, error, trace)


if sys.argv[:1] == ["-m"] and any(word.startswith("mammoth.") for word in sys.orig_argv):  # so only until that command begins
    _check_environment()
    sys.excepthook = _say_interrupted


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it offers {', '.join(sorted(_WHERE))}")
    return getattr(importlib.import_module(_WHERE[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_WHERE])
