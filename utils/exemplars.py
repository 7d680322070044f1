"""Exemplars by class, and training on them beside the task. Here for upstream's methods, which import both from `utils.buffer`."""

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from utils import randomness
from utils.augmentations import apply_transform


def herding(features: Tensor, count: int) -> Tensor:
    """Return the rows whose running mean stays closest to the mean of all, in order of choice (Rebuffi et al. 2017, algorithm 4).

    Row k minimises |mu - (f + sum of those chosen) / k| over the rows not chosen yet.

    Args:
        features: (rows, features); count: how many to choose, at most all.

    Returns:
        (min(count, rows),) int64.
    """
    mean, chosen_sum = features.mean(0), torch.zeros_like(features[0])
    free = torch.ones(len(features), dtype=torch.bool, device=features.device)
    chosen = []
    for number in range(1, min(count, len(features)) + 1):
        distance = (mean - (features + chosen_sum) / number).norm(dim=1)
        row = int(distance.masked_fill(~free, torch.inf).argmin())
        chosen.append(row)
        free[row] = False
        chosen_sum = chosen_sum + features[row]
    return torch.tensor(chosen, dtype=torch.int64, device=features.device)


def _first_of_each(groups: Tensor, count: int) -> Tensor:
    """Return the first `count` rows of each group. `groups`: (rows,)."""
    return torch.cat([(groups == group).nonzero()[:count, 0] for group in groups.unique()])


def _restrict(images: Any, rows: Tensor) -> None:
    """Keep these rows of a set (mask or indices), its extra fields included."""
    images.data, images.targets = torch.as_tensor(images.data)[rows], torch.as_tensor(images.targets)[rows]
    for name in images.extra_return_fields:
        setattr(images, name, torch.as_tensor(getattr(images, name))[rows])


def fill_buffer(
    buffer: Any,
    dataset: Any,
    t_idx: int,
    net: Any = None,
    use_herding: bool = False,
    required_attributes: Sequence[str] | None = None,
    normalize_features: bool = False,
    extend_equalize_buffer: bool = False,
) -> None:
    """Share the memory equally between the classes seen: trim the old ones, add rows of the current task's.

    In a domain-il sequence, where each task has all classes, the share is for each class of each task.

    Args:
        buffer: a `Buffer`; `dataset`: the benchmark, whose `train_loader` loses what `icarl_replay` added.
        t_idx: the current task's index.
        net: the network, needed for herding and for logits (which are stored as sigmoid outputs).
        use_herding: choose rows by herding on the features instead of at random.
        required_attributes: what to store (default: examples and labels).
        normalize_features: scale features to length 1 before herding.
        extend_equalize_buffer: round the share up, even beyond `--buffer_size`.

    Raises:
        ValueError: herding or logits without a network, or a memory too small for a row a class.
    """
    wanted = list(required_attributes or ("examples", "labels"))
    if net is None and (use_herding or "logits" in wanted):
        raise ValueError("fill_buffer: herding and logits need a network; pass net=")
    images = dataset.train_loader.dataset
    first, past_last = dataset.get_offsets(t_idx)
    targets = torch.as_tensor(images.targets)
    own = torch.arange(len(targets), device=targets.device) < getattr(images, "replayed_from", len(targets))
    _restrict(images, (targets >= first) & own)
    groups = past_last * (t_idx + 1 if dataset.SETTING == "domain-il" else 1)
    buffer.buffer_size = dataset.args.buffer_size
    share = -(-buffer.buffer_size // groups) if extend_equalize_buffer else buffer.buffer_size // groups
    if share < 1:
        raise ValueError(
            f"--buffer_size {buffer.buffer_size} is less than one image for each of {groups} classes; give {groups} or more"
        )
    buffer.buffer_size = max(buffer.buffer_size, share * groups) if extend_equalize_buffer else buffer.buffer_size
    if not buffer.is_empty():
        _trim(buffer, share, dataset.SETTING == "domain-il", past_last)
    _add_newest(
        buffer, dataset, t_idx, net if use_herding or "logits" in wanted else None, use_herding, wanted, share, normalize_features
    )


def _trim(buffer: Any, share: int, by_task: bool, classes: int) -> None:
    """Keep the first `share` rows of each class (of each task, where the memory knows the tasks)."""
    rows = dict(zip(buffer.used_attributes, buffer.get_all_data(), strict=True))
    groups = rows["labels"]
    if by_task and "task_labels" in rows:
        groups = groups + classes * rows["task_labels"]
    kept = _first_of_each(groups, share)
    buffer.empty()
    buffer.add_data(**{name: values[kept] for name, values in rows.items()})


def _add_newest(
    buffer: Any, dataset: Any, task: int, net: Any, use_herding: bool, wanted: list[str], share: int, unit_length: bool
) -> None:
    """Add `share` rows of each class of the current task."""
    images = dataset.train_loader.dataset
    features, logits = _outputs(net, images, dataset, unit_length) if net is not None else (None, None)
    for label in images.targets.unique():
        rows = (images.targets == label).nonzero()[:, 0]
        if use_herding:
            assert features is not None
            order = herding(features[rows], share).to(rows.device)
        else:
            order = torch.randperm(len(rows), generator=randomness.generator("exemplars"))[:share].to(rows.device)
        chosen = rows[order]
        columns = {"examples": images.images(chosen), "labels": images.targets[chosen]}
        if "logits" in wanted:
            assert logits is not None
            columns["logits"] = logits[chosen]
        if "task_labels" in wanted:
            columns["task_labels"] = torch.full_like(columns["labels"], task)
        buffer.add_data(**columns)


@torch.no_grad()
def _outputs(net: Any, images: Any, dataset: Any, unit_length: bool) -> tuple[Tensor, Tensor]:
    """Return the features of a set's un-augmented images, (n, features), and the sigmoid outputs, (n, classes), in eval mode."""
    training = net.training
    net.eval()
    normalise = dataset.get_normalization_transform()
    parts = []
    for rows in torch.arange(len(images), device=images.targets.device).split(dataset.get_batch_size()):
        features = net(apply_transform(images.images(rows), normalise), returnt="features")
        parts.append((features, net.classifier(features).sigmoid()))
    net.train(training)
    features, logits = (torch.cat(columns) for columns in zip(*parts, strict=True))
    return (features / features.norm(dim=1, keepdim=True) if unit_length else features), logits


def icarl_replay(model: Any, dataset: Any, val_set_split: float = 0) -> None:
    """From the second task on, add the memory's images to the training images of the task, so that the loop passes over both.

    Args:
        model: a method with a `buffer`; with a split it gets `val_dataset` and `val_loader`.
        val_set_split: probability that a row of the memory is set aside for validation, with as many images of the task.
    """
    if model.current_task == 0 or model.buffer.is_empty():
        return
    images, generator = dataset.train_loader.dataset, randomness.generator("exemplars")
    where = images.device
    examples, labels = (column[: len(model.buffer)].to(where) for column in (model.buffer.examples, model.buffer.labels))
    held = (torch.rand(len(labels), generator=generator) < val_set_split).to(where)
    aside = torch.zeros(len(images), dtype=torch.bool, device=where)
    aside[torch.randperm(len(images), generator=generator)[: int(held.sum())].to(where)] = True
    if val_set_split > 0:
        model.val_dataset = copy.copy(images)
        _restrict(model.val_dataset, aside)
        model.val_dataset.append(examples[held], labels[held])
        order = randomness.generator("validation order")
        model.val_loader = type(dataset.train_loader)(model.val_dataset, model.args.batch_size, order)
        model.val_dataset.extra_return_fields = ()
    _restrict(images, ~aside)
    images.replayed_from = len(images)
    images.append(examples[~held], labels[~held])
    images.extra_return_fields = ()
