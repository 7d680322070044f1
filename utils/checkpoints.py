"""A trained model in one file, from which it predicts without its data set: weights, arguments, class names, transform.

Files of others (Mammoth's checkpoints, a network's `state_dict`) give their weights to a run by `load_weights`.
"""

import functools
import glob
import io
import pickle
import struct
import warnings
import zipfile
import zlib
from argparse import Namespace
from pathlib import Path
from typing import Any

import torch

from utils.attributes import child_modes, plain_attributes, put_back
from utils.buffer import Buffer
from utils.files import write_atomically
from utils.loggers import LOG
from utils.registry import canonical

SCHEMA = 1
FACTS = ("NAME", "SETTING", "N_CLASSES", "N_TASKS", "N_CLASSES_PER_TASK", "SIZE", "TRANSFORM", "TEST_TRANSFORM")


def checkpoint_path(args: Namespace) -> Path:
    """Return where a run's last checkpoint lies: `<checkpoint_path>/[<ckpt_name>_]<run id>/last.pt`."""
    name = getattr(args, "ckpt_name", None)
    return Path(args.checkpoint_path) / (f"{name}_{args.run_id}" if name else args.run_id) / "last.pt"


def name_as_mammoth(path: Path, which: str) -> None:
    """Let `<checkpoint_path>/<base name>_<which>.pt` lead to a run's checkpoint; links to what is no longer there go.

    Mammoth has no folder a run, and calls its files so, with a task, `last` or `joint`. Where the file system has no links there
    are no such names, and a line says so.
    """
    base = path.parent
    link = base.with_name(f"{base.name}_{which}.pt")
    try:
        link.unlink(missing_ok=True)
        link.symlink_to(Path(base.name) / path.name)
        for old in base.parent.glob(f"{glob.escape(base.name)}_*.pt"):
            if old.is_symlink() and not old.exists():
                old.unlink(missing_ok=True)
    except OSError as error:
        LOG.info("%s is not there under Mammoth's name %s (%s)", path, link.name, error.strerror)


def save_checkpoint(path: Path, model: Any, dataset: Any, state: dict[str, Any] | None = None) -> None:
    """Write a method's state and what it takes to predict with it, whole or not at all.

    Args:
        state: what else to keep, such as all that a run needs to go on.

    Raises:
        OSError: the folder cannot be made or written.
    """
    facts = {name: getattr(dataset, name) for name in FACTS} | dataset.plain_transforms()
    attributes, left = plain_attributes(model)
    if left:
        _warn_of(", ".join(left), model.NAME)
    content = {
        "schema": SCHEMA,
        "model": model.state_dict(),
        "attributes": attributes,
        "modes": child_modes(model),
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


@functools.cache  # once a process
def _warn_of(names: str, method: str) -> None:
    LOG.warning("%s keeps %s, which checkpoints cannot hold: a run that goes on from one may end with other numbers", method, names)


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Read a checkpoint; nothing in it can be executed.

    Raises:
        ValueError: no such file, truncated or corrupt, asks for code, or is no checkpoint of this schema; names it.
    """
    content = read_archive(path, "a run writes one with --savecheck last")
    if content.get("schema") != SCHEMA or "model" not in content:
        raise ValueError(f"{path} is no checkpoint of schema {SCHEMA}")
    return content


def read_archive(path: Path, way_out: str) -> dict[str, Any]:
    """Read a dict that torch saved; nothing in it can be executed.

    Raises:
        ValueError: no such file, truncated or corrupt, asks for code, or no dict; names it.
    """
    try:
        _check_sums(path)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of a protocol that a damaged file names; an error may follow
            content = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError as error:
        raise ValueError(f"no checkpoint {path}; {way_out}") from error
    except (OSError, RuntimeError, ValueError, EOFError, LookupError, TypeError, AttributeError, AssertionError, ArithmeticError,
            MemoryError, struct.error, zlib.error, zipfile.BadZipFile, pickle.UnpicklingError) as error:  # fmt: skip
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ValueError(f"{path} is corrupt or no checkpoint: {reason}") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path} is no checkpoint of schema {SCHEMA}: it holds a {type(content).__name__}")
    return content


def _check_sums(path: Path) -> None:
    """Raise BadZipFile if a part of the archive may unpack to any size, or has not its checksum, at which torch does not look."""
    with zipfile.ZipFile(path) as archive:
        if any(part.compress_type != zipfile.ZIP_STORED for part in archive.infolist()):
            raise zipfile.BadZipFile("it is compressed, and torch's files are not")
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
        put_back(model, checkpoint)
    except RuntimeError as error:
        raise ValueError(f"the checkpoint's weights do not fit {args.model} on {args.backbone}: {error}") from error
    _load_memories(model, checkpoint, "the checkpoint")  # iCaRL's prediction is made of it
    model.to(device)
    model.eval()
    return model


# -- weights into another run --------------------------------------------------------------------------------------------


def load_weights(path: Path) -> dict[str, Any]:
    """Read a file of weights: a checkpoint of ours or Mammoth's, or a network's bare `state_dict`. Nothing in it can be executed.

    Returns:
        The file's content, with the weights by name under `model`.

    Raises:
        ValueError: no such file, truncated or corrupt, asks for code, or holds no weights; names it.
    """
    content = read_archive(path, "give the path of a file of weights; nothing is fetched from the network")
    weights = next((content[key] for key in ("model", "state_dict") if isinstance(content.get(key), dict)), content)
    weights = {_without_module(str(name)): value for name, value in weights.items() if isinstance(value, torch.Tensor)}
    if not weights:
        raise ValueError(f"{path} holds no weights: expected a checkpoint, or a network's state_dict")
    return {**(content if weights is not content else {}), "model": weights}


def _without_module(name: str) -> str:
    """Return an entry's name as it is without DataParallel around the network."""
    return ".".join(word for word in name.split(".") if word != "module")


def load_network(net: torch.nn.Module, weights: dict[str, torch.Tensor], source: object, keep_classifier: bool = False) -> None:
    """Put weights into a network; what does not fit is named.

    Args:
        weights: by name, as the network's `state_dict()` has them or, with `net.` before, as a method's has them.
        source: the file, for messages.
        keep_classifier: leave the classifier as it is.

    Raises:
        ValueError: an entry of the network is missing, or has another shape; of the classifier's alone a line is logged.
    """
    own = net.state_dict()
    given = {name.removeprefix("net."): value for name, value in weights.items() if name.startswith("net.")} or weights
    fitting = {name: value for name, value in given.items() if name in own and value.shape == own[name].shape}
    if keep_classifier:
        fitting = {name: value for name, value in fitting.items() if not name.startswith("classifier.")}
    unfit = [name for name in own if name not in fitting and not name.endswith("num_batches_tracked")]
    misfits = [name for name in unfit if not name.startswith("classifier.")]
    if misfits:
        more = f" and {len(misfits) - 3} more" if len(misfits) > 3 else ""
        raise ValueError(f"{source} does not fit the network: {', '.join(_misfit(n, own, given) for n in misfits[:3])}{more}")
    if unfit:
        LOG.warning("%s: the classifier stays as it was: %s", source, ", ".join(_misfit(name, own, given) for name in unfit))
    unused = [name for name in given if name not in own]
    if unused:
        LOG.info("%s: of no use to this network: %s", source, ", ".join(unused))
    net.load_state_dict({**own, **fitting})


def _misfit(name: str, own: dict[str, torch.Tensor], given: dict[str, torch.Tensor]) -> str:
    there = f"the file has {list(given[name].shape)}" if name in given else "not in the file"
    return f"{name} {list(own[name].shape)} ({there})"


def load_method(model: Any, content: dict[str, Any], source: object) -> None:
    """Put a checkpoint's weights, method state and memory into a method; generators and counters stay the run's own.

    Args:
        content: of `load_weights`; of another method, or a bare network, its network alone is taken, and a line says so.

    Raises:
        ValueError: something does not fit; names it.
    """
    load_network(model.net, content["model"], source)
    maker = content["args"].get("model") if isinstance(content.get("args"), dict) else None
    if maker is None or canonical(str(maker)) != canonical(model.NAME):
        LOG.warning("%s is of %s: its network is taken, and no memory", source, maker or "a bare network")
        return
    own = model.state_dict()
    known = {name: value for name, value in content["model"].items() if name in own or "modes" in content}
    state = {name: value for name, value in known.items() if not name.startswith("net.") and not name.endswith("_extra_state")}
    stored = content.get("attributes") or {}  # numbers and texts are settings, which are the run's own
    attributes = {name: pair for name, pair in stored.items() if pair[0] != "value" or not hasattr(model, name)}
    try:
        put_back(model, {**content, "model": {**own, **state}, "attributes": attributes})
    except RuntimeError as error:
        raise ValueError(f"{source} does not fit {model.NAME} with these flags: {str(error).splitlines()[-1].strip()}") from error
    _load_memories(model, content, source)


def _load_memories(model: Any, content: dict[str, Any], source: object) -> None:
    """Fill a method's memories from those of a checkpoint that have the same names."""
    for name, rows in {**(content.get("buffers") or {}), "buffer": content.get("buffer")}.items():
        if rows and isinstance(getattr(model, name, None), Buffer):
            _load_memory(getattr(model, name), rows, source)


def _load_memory(memory: Buffer, rows: dict[str, Any], source: object) -> None:
    """Fill a memory from a checkpoint's; of Mammoth's, which holds rows alone, all count as seen and as past."""
    count = len(rows["examples"]) if isinstance(rows.get("examples"), torch.Tensor) else 0
    full = {"num_seen_examples": count, "past": torch.arange(count), **rows}
    wanted = min(full["num_seen_examples"] if memory.FILLS_UP else count, memory.buffer_size)
    if memory.sample_selection_strategy != "unlimited" and count != wanted:
        raise ValueError(f"{source} holds a memory of {count} images, and --buffer_size is {memory.buffer_size}: give {count}")
    memory.load_state_dict(full)


# -- Mammoth's names -----------------------------------------------------------------------------------------------------


def mammoth_load_checkpoint(args: Namespace, model: Any, ignore_classifier: bool = False) -> tuple[Any, list[Any] | None]:
    """Put the file that `args.loadcheck` names into a method, and return it with the file's accuracies, if it has any.

    Args:
        ignore_classifier: of a bare network, leave the method's classifier as it is.

    Raises:
        ValueError: the file cannot be read or does not fit; says what.
    """
    content = load_weights(Path(args.loadcheck))
    if "args" in content:
        load_method(model, content, args.loadcheck)
    else:
        load_network(model.net, content["model"], args.loadcheck, ignore_classifier)
    return model, content.get("results")


def save_mammoth_checkpoint(
    task: int,
    end_task: int,
    args: Namespace,
    model: Any,
    results: list[Any] | None = None,
    optimizer_st: dict[str, Any] | None = None,
    scheduler_st: dict[str, Any] | None = None,
) -> None:
    """Write `<checkpoint_path>/<ckpt_name>_<task>.pt` (of the last task `_last.pt`, of joint training `_joint.pt`), if due.

    Raises:
        OSError: the folder cannot be made or written.
    """
    if args.savecheck == "last" and task != end_task - 1:
        return
    kind = "joint" if args.joint else "last" if args.savecheck == "last" else task
    path = Path(args.checkpoint_path) / f"{args.ckpt_name or args.run_id}_{kind}.pt"
    memory = getattr(model, "buffer", None)
    state = {"optimizer": optimizer_st, "scheduler": scheduler_st, "results": results}
    save_checkpoint(path, model, model.dataset, {**state, "buffer": memory.state_dict() if memory is not None else None})
