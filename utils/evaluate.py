"""Accuracy over the tasks so far, Class-IL and Task-IL, and the confusion matrix, in one pass over the test images."""

from typing import Any, NamedTuple

import torch
from torch import Tensor


class Evaluation(NamedTuple):
    """What an evaluation found. Accuracies in percent, one entry a task."""

    class_il: list[float]
    task_il: list[float]
    confusion: list[list[int]]  # row: true class, column: predicted class
    loss: float


def takes_task(model: Any) -> bool:
    """Return whether a method is for Task-IL alone by its `COMPATIBILITY`: it is called as `model(images, task)`."""
    settings = set(getattr(model, "COMPATIBILITY", ()))
    return "task-il" in settings and not settings & {"class-il", "domain-il", "general-continual"}


def evaluate_tasks(model: Any, dataset: Any, tasks: range, all_outputs: bool = False) -> Evaluation:
    """Evaluate `model` in eval mode on the test images of these tasks.

    Class-IL: argmax over all outputs, or over the classes seen (`--eval_classes all|seen`). Task-IL: argmax over the task's own
    classes, which masks one shared head; it is no multi-head evaluation. `all_outputs`: Class-IL as with `--eval_classes all`.
    A method that takes the task has Class-IL accuracies of 0.
    """
    modes = {module: module.training for module in model.net.modules()}
    model.net.eval()
    outputs = dataset.N_CLASSES
    everything = all_outputs or getattr(model.args, "eval_classes", "seen") == "all"
    limit = outputs if everything else dataset.training_range()[1]
    confusion = torch.zeros(outputs * outputs, dtype=torch.int64, device=model.device)
    class_il, task_il, losses, by_task = [], [], [], takes_task(model)
    with torch.inference_mode():
        for task in tasks:
            first, past_last = dataset.get_offsets(task)
            right = torch.zeros(3, device=model.device)  # Class-IL, Task-IL, summed loss
            count = 0
            for step, (inputs, labels, *_) in enumerate(dataset.test_loaders[task]):
                if model.args.debug_mode and step > model.get_debug_iters():
                    break
                count += len(labels)
                logits = model(inputs, task) if by_task else model(inputs)
                guess = logits[:, :limit].argmax(1)
                right[0] += (guess == labels).sum()
                right[1] += (logits[:, first:past_last].argmax(1) + first == labels).sum()
                right[2] += _summed_loss(model, logits, labels)
                confusion += _counts(labels * outputs + guess, outputs * outputs)
            hits = (right / max(count, 1)).tolist()
            class_il.append(0.0 if by_task else round(100 * hits[0], 4))
            task_il.append(round(100 * hits[1], 4) if dataset.SETTING != "domain-il" else 0.0)
            losses.append(hits[2])
    for module, training in modes.items():
        module.training = training
    return Evaluation(class_il, task_il, confusion.view(outputs, outputs).tolist(), sum(losses) / max(len(losses), 1))


def _counts(values: Tensor, size: int) -> Tensor:
    return torch.zeros(size, dtype=torch.int64, device=values.device).index_add_(0, values, torch.ones_like(values))


def _summed_loss(model: Any, logits: Tensor, labels: Tensor) -> Tensor:
    """Return the summed loss of a batch; zero where the logits do not cover the labels (nearest-mean classifiers)."""
    return model.loss(logits, labels) * len(labels) if logits.dim() == 2 else logits.new_zeros(())


def evaluate(model: Any, dataset: Any, last: bool = False, return_loss: bool = False) -> Any:
    """Return (Class-IL, Task-IL) accuracies in percent, one entry for each task so far, and the mean loss if asked for.

    Args:
        model: a `ContinualModel`; called on normalised images, returns logits (batch, classes).
        dataset: a `ContinualDataset` with `test_loaders`.
        last: evaluate the newest task only.
        return_loss: add the mean loss as a third entry.
    """
    tasks = range(len(dataset.test_loaders))
    found = evaluate_tasks(model, dataset, tasks[-1:] if last else tasks)
    return (found.class_il, found.task_il, found.loss) if return_loss else (found.class_il, found.task_il)
