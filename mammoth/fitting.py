"""When a task has been trained for long enough: `--fitting_mode early_stopping`."""

import copy
from argparse import Namespace
from typing import Any

from datasets import ContinualDataset
from models import ContinualModel
from utils.evaluate import evaluate_tasks, takes_task
from utils.loggers import LOG


class EarlyStopping:
    """Watches the held-out images (`--validation`) of one task, and remembers the method's state where they were best.

    That is its `state_dict`: the network, and what else predicts with it, such as the long-term memory of PVBF's D-CWR.

    A value counts as better when it improves on the best by more than `--early_stopping_epsilon`. Made anew for each task, so
    nothing is carried over from an earlier one.

    Args:
        patience: how many looks in a row may bring nothing better.
    """

    def __init__(self, metric: str, patience: int, epsilon: float) -> None:
        self.metric, self.patience, self.epsilon = metric, patience, epsilon
        self.best: float | None = None
        self.waited = 0
        self.state: dict[str, Any] = {}

    def enough(self, value: float, model: Any) -> bool:
        """Take note of a loss or an accuracy; return whether to stop."""
        gain = self.epsilon + 1 if self.best is None else (self.best - value if self.metric == "loss" else value - self.best)
        if gain > self.epsilon:
            self.best, self.waited, self.state = value, 0, copy.deepcopy(model.state_dict())
        else:
            self.waited += 1
        return self.waited >= self.patience

    def state_dict(self) -> dict[str, Any]:
        """Return what it has seen so far."""
        return {"best": self.best, "waited": self.waited, "state": dict(self.state)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Put back what `state_dict` gave."""
        self.best, self.waited, self.state = state["best"], state["waited"], state["state"]

    def restore(self, model: Any) -> None:
        """Put the best state back."""
        if self.state:
            model.load_state_dict(self.state)


def make_early_stopping(args: Namespace) -> EarlyStopping | None:
    """Return what the flags ask for; None where tasks last a number of epochs or steps."""
    if getattr(args, "fitting_mode", "epochs") != "early_stopping":
        return None
    return EarlyStopping(args.early_stopping_metric, args.early_stopping_patience, args.early_stopping_epsilon)


def enough_after_epoch(model: ContinualModel, dataset: ContinualDataset, epoch: int, stopping: EarlyStopping | None) -> bool:
    """Evaluate after an epoch where `--eval_epochs` or early stopping asks for it; return whether the task is done.

    `--validation_mode current` looks at the current task, `complete` at all tasks so far.
    """
    args = model.args
    every = getattr(args, "eval_epochs", None)
    look = stopping is not None and (epoch + 1) % args.early_stopping_freq == 0
    if not look and not (every and (epoch + 1) % every == 0):
        return False
    count = len(dataset.test_loaders)
    newest = args.validation > 0 and args.validation_mode == "current" and not dataset.joint
    found = evaluate_tasks(model, dataset, range(count - 1 if newest else 0, count))
    accuracies = found.task_il if takes_task(model) else found.class_il
    accuracy = sum(accuracies) / len(accuracies)
    LOG.info("task %d, epoch %d: loss %.4f, accuracy %.2f %%", dataset.current_task + 1, epoch + 1, found.loss, accuracy)
    if not look or stopping is None:
        return False
    return stopping.enough(found.loss if stopping.metric == "loss" else accuracy, model)
