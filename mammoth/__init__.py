"""The engine: how a run happens. It knows no single method and no single benchmark.

As a library: `from mammoth import load_runner, train, ...`. Names are looked up when asked for.
"""

import importlib
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


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it offers {', '.join(sorted(_WHERE))}")
    return getattr(importlib.import_module(_WHERE[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_WHERE])
