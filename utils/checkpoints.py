"""A trained model in one file, from which it predicts without its data set: weights, arguments, class names, transform."""

import io
import pickle
import struct
import zipfile
import zlib
from argparse import Namespace
from pathlib import Path
from typing import Any

import torch

from utils.files import write_atomically

SCHEMA = 1
FACTS = ("NAME", "SETTING", "N_CLASSES", "N_TASKS", "N_CLASSES_PER_TASK", "SIZE", "TRANSFORM", "TEST_TRANSFORM")


def checkpoint_path(args: Namespace) -> Path:
    """Return where a run's last checkpoint lies: `<checkpoint_path>/<run id>/last.pt`."""
    return Path(args.checkpoint_path) / args.run_id / "last.pt"


def save_checkpoint(path: Path, model: Any, dataset: Any, state: dict[str, Any] | None = None) -> None:
    """Write a method's state and what it takes to predict with it, whole or not at all.

    Args:
        state: what else to keep, such as all that a run needs to go on.

    Raises:
        OSError: the folder cannot be made or written.
    """
    facts = {name: getattr(dataset, name) for name in FACTS} | dataset.plain_transforms()
    content = {
        "schema": SCHEMA,
        "model": model.state_dict(),
        "args": {name: value for name, value in vars(model.args).items() if name != "list"},
        "facts": facts,
        "class_names": dataset.get_class_names(),
        "class_order": dataset.class_order,
        "task_sizes": dataset.task_sizes,
        "n_seen": dataset.training_range()[1],
        "size": tuple(dataset.SIZE),
        "test_transform": facts["TEST_TRANSFORM"],
        **(state or {}),
    }
    whole = io.BytesIO()  # so that a full disk shows as an OSError, not as torch's
    torch.save(content, whole)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, whole.getvalue())


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Read a checkpoint; nothing in it can be executed.

    Raises:
        ValueError: no such file, truncated or corrupt, asks for code, or is no checkpoint of this schema; names it.
    """
    try:
        _check_sums(path)
        content = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError as error:
        raise ValueError(f"no checkpoint {path}; a run writes one with --savecheck last") from error
    except (OSError, RuntimeError, ValueError, EOFError, LookupError, TypeError, AttributeError, AssertionError, ArithmeticError,
            MemoryError, struct.error, zlib.error, zipfile.BadZipFile, pickle.UnpicklingError) as error:  # fmt: skip
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ValueError(f"{path} is corrupt or no checkpoint: {reason}") from error
    if not isinstance(content, dict) or content.get("schema") != SCHEMA or "model" not in content:
        raise ValueError(f"{path} is no checkpoint of schema {SCHEMA}")
    return content


def _check_sums(path: Path) -> None:
    """Raise BadZipFile if a part of the archive does not have its checksum: torch itself does not look."""
    with zipfile.ZipFile(path) as archive:
        damaged = archive.testzip()
    if damaged is not None:
        raise zipfile.BadZipFile(f"{damaged} is damaged")


def restore_model(checkpoint: dict[str, Any], device: torch.device) -> Any:
    """Build the method that a checkpoint holds, in eval mode: `model(x)` gives what evaluation saw. Needs no data set on disk.

    Raises:
        ValueError: the method or network is not there, or the weights do not fit it.
    """
    from backbone import get_backbone  # here, since these stand above `utils`
    from datasets import ContinualDataset
    from models import get_model

    args = Namespace(**{**checkpoint["args"], "device": str(device)})
    dataset = type("Stored", (ContinualDataset,), {**checkpoint["facts"], "CLASS_NAMES": []})(args)
    model = get_model(args, get_backbone(args), dataset.get_loss(), dataset.get_transform(), dataset)
    try:
        model.load_state_dict(checkpoint["model"])
    except RuntimeError as error:
        raise ValueError(f"the checkpoint's weights do not fit {args.model} on {args.backbone}: {error}") from error
    model.to(device)
    model.eval()
    return model
