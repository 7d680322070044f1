"""The base of every method: Mammoth's interface, and the hooks that the engine calls.

A method defines `observe` (one training step) and, where it needs them, `begin_task`, `end_task`, `begin_epoch`, `end_epoch`
and `end_eval`. The engine calls the `meta_` versions, which keep the counters and then call these.
"""

import inspect
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from backbone import MammothBackbone
from datasets.utils.continual_dataset import ContinualDataset
from utils.augmentations import BatchTransform
from utils.buffer import Buffer
from utils.conf import get_device

Observed = float | Tensor | dict[str, Any]


class ContinualModel(nn.Module):
    """A method of continual learning around a network `net`.

    Args:
        backbone: the network.
        loss: called as `loss(logits, labels)`, a mean over the batch.
        args: the resolved arguments.
        transform: augmentation and normalisation for replayed images, on a float batch in [0, 1]; None leaves them as they are.
        dataset: the benchmark.

    Raises:
        NotImplementedError: the subclass sets no NAME or COMPATIBILITY.
    """

    NAME: str
    COMPATIBILITY: list[str]
    AVAIL_OPTIMS = ["sgd", "adam", "adamw"]

    @staticmethod
    def get_parser(parser: ArgumentParser) -> ArgumentParser | None:
        """Add the method's own flags to an argparse parser or argument group, and return it."""
        return parser

    def __init__(
        self,
        backbone: MammothBackbone,
        loss: Callable[..., Tensor],
        args: Namespace,
        transform: BatchTransform | Callable[[Tensor], Tensor] | None,
        dataset: ContinualDataset | None = None,
    ) -> None:
        super().__init__()
        if not getattr(self, "NAME", None) or not getattr(self, "COMPATIBILITY", None):
            raise NotImplementedError(f"{type(self).__name__} must set NAME and COMPATIBILITY")
        self.net = backbone
        self.loss = loss
        self.args = args
        self.transform = transform
        self.original_transform = transform
        self.dataset = dataset
        self.device = get_device(getattr(args, "device", None))
        if dataset is not None:
            self.N_CLASSES = self.num_classes = dataset.N_CLASSES
            self.N_TASKS = self.n_tasks = dataset.N_TASKS
            self.SETTING = dataset.SETTING
            self._cpt = dataset.N_CLASSES_PER_TASK
            if transform is not None:
                self.normalization_transform = dataset.get_normalization_transform()
        self.opt: torch.optim.Optimizer = self.get_optimizer()
        self._current_task = 0
        self._epoch_iteration = self._task_iteration = 0
        self._may_lack_labels = min(getattr(args, "label_perc", 1.0), getattr(args, "label_perc_by_class", 1.0)) < 1
        self._n_past_classes = self._n_seen_classes = self._n_classes_current_task = -1

    # -- what a method may ask -----------------------------------------------------------------------------------------

    @property
    def current_task(self) -> int:
        """Index of the task in training; one more while the tasks so far are evaluated."""
        return self._current_task

    @property
    def n_past_classes(self) -> int:
        """Number of classes of the tasks before this one; -1 before the first task."""
        return self._n_past_classes

    @property
    def n_seen_classes(self) -> int:
        """Number of classes of the tasks up to this one; -1 before the first task."""
        return self._n_seen_classes

    @property
    def n_classes_current_task(self) -> int:
        """Number of classes of this task; -1 before the first task."""
        return self._n_classes_current_task

    @property
    def n_remaining_classes(self) -> int:
        """Number of classes that are still to come."""
        return self.N_CLASSES - self._n_seen_classes

    @property
    def task_iteration(self) -> int:
        """Number of steps done in this task."""
        return self._task_iteration

    @property
    def epoch_iteration(self) -> int:
        """Number of steps done in this epoch."""
        return self._epoch_iteration

    @property
    def cpt(self) -> int | list[int]:
        """Classes per task, as the data set states them."""
        return self._cpt

    @cpt.setter
    def cpt(self, value: int | list[int]) -> None:
        self._cpt = value

    @property
    def classes_per_task(self) -> int | list[int]:
        """The same as `cpt`."""
        return self._cpt

    def get_parameters(self) -> Iterable[nn.Parameter]:
        """Return the parameters that the optimiser trains."""
        return self.net.parameters()

    def get_optimizer(self, params: Iterable[nn.Parameter] | None = None, lr: float | None = None) -> torch.optim.Optimizer:
        """Build the optimiser that the flags name, over `params` (default: all of the network's) at rate `lr`.

        Raises:
            ValueError: the method cannot use the optimiser asked for.
        """
        args = self.args
        name = str(getattr(args, "optimizer", "sgd")).lower()
        if name not in self.AVAIL_OPTIMS:
            raise ValueError(f"--optimizer {name}: {self.NAME} takes {', '.join(self.AVAIL_OPTIMS)}")
        trained = list(self.get_parameters() if params is None else params)
        rate = args.lr if lr is None else lr
        decay = getattr(args, "optim_wd", 0.0)
        if name == "sgd":
            momentum, nesterov = getattr(args, "optim_mom", 0.0), bool(getattr(args, "optim_nesterov", 0))
            return torch.optim.SGD(trained, lr=rate, weight_decay=decay, momentum=momentum, nesterov=nesterov)
        kind = torch.optim.Adam if name == "adam" else torch.optim.AdamW
        return kind(trained, lr=rate, weight_decay=decay)

    def get_offsets(self, task: int | None = None) -> tuple[int, int]:
        """Return the first class of a task and one past its last."""
        if self.dataset is None:
            raise ValueError(f"{self.NAME} was built without a data set, so it has no tasks")
        return self.dataset.get_offsets(self._current_task if task is None else task)

    def get_debug_iters(self) -> int:
        """Return the index of the last step of an epoch in debug mode."""
        return 5

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits for a normalised batch: (batch, classes)."""
        return self.net(x)

    # -- what a method defines -----------------------------------------------------------------------------------------

    def observe(self, inputs: Tensor, labels: Tensor, not_aug_inputs: Tensor, epoch: int | None = None) -> Observed:
        """Do one training step.

        Args:
            inputs: augmented and normalised images, (batch, channels, height, width).
            labels: (batch,) int64.
            not_aug_inputs: the same images in [0, 1], for the memory.
            epoch: index of the epoch.

        Returns:
            The loss, or a dict with key `loss` and whatever else is worth showing.
        """
        raise NotImplementedError(f"{self.NAME} defines no observe()")

    def begin_task(self, dataset: ContinualDataset) -> None:
        """Called before the first step of a task."""

    def end_task(self, dataset: ContinualDataset) -> None:
        """Called after the last step of a task, before evaluation."""

    def begin_epoch(self, epoch: int, dataset: ContinualDataset) -> None:
        """Called before each epoch."""

    def end_epoch(self, epoch: int, dataset: ContinualDataset) -> None:
        """Called after each epoch."""

    def end_eval(self, dataset: ContinualDataset, results: tuple[list[float], list[float]]) -> None:
        """Called after the evaluation that follows a task."""

    # -- what the engine calls -----------------------------------------------------------------------------------------

    def meta_begin_task(self, dataset: ContinualDataset) -> None:
        """Reset the counters, rebuild the optimiser, then `begin_task`."""
        self._task_iteration = self._epoch_iteration = 0
        first, past_last = dataset.training_range()
        self._n_past_classes, self._n_seen_classes = first, past_last
        self._n_classes_current_task = past_last - first
        for buffer in (value for value in vars(self).values() if isinstance(value, Buffer)):
            if buffer.is_empty():
                buffer.eight_bit = dataset.EIGHT_BIT
        self.opt = self.get_optimizer()
        self.begin_task(dataset)

    def meta_end_task(self, dataset: ContinualDataset) -> None:
        """`end_task`, then count the task as done."""
        self.end_task(dataset)
        self._current_task += 1

    def meta_begin_epoch(self, epoch: int, dataset: ContinualDataset) -> None:
        """Reset the epoch's counter, then `begin_epoch`."""
        self._epoch_iteration = 0
        self.begin_epoch(epoch, dataset)

    def meta_end_epoch(self, epoch: int, dataset: ContinualDataset) -> None:
        """`end_epoch`."""
        self.end_epoch(epoch, dataset)

    def meta_end_eval(self, dataset: ContinualDataset, results: tuple[list[float], list[float]]) -> None:
        """`end_eval`, with `current_task` as it was during training."""
        self._current_task -= 1
        self.end_eval(dataset, results)
        self._current_task += 1

    def meta_observe(self, inputs: Tensor, labels: Tensor, not_aug_inputs: Tensor, **fields: Any) -> dict[str, Any]:
        """Call `observe` with the keywords that it names, and count the step.

        Images without a label (-1) are left out, unless the method's COMPATIBILITY has `cssl`; where none is left, the loss is 0.

        Returns:
            A dict with key `loss` and whatever else `observe` reported.
        """
        if self._may_lack_labels and "cssl" not in self.COMPATIBILITY:
            there = labels != -1
            if not there.any():
                return {"loss": 0.0}
            batch = (inputs, labels, not_aug_inputs)
            inputs, labels, not_aug_inputs = (part[there] for part in batch)
            fields = {name: value[there] if isinstance(value, Tensor) else value for name, value in fields.items()}
        observed = self.observe(inputs, labels, not_aug_inputs, **self._named_by_observe(fields))
        self._task_iteration += 1
        self._epoch_iteration += 1
        return observed if isinstance(observed, dict) else {"loss": observed}

    def _named_by_observe(self, fields: dict[str, Any]) -> dict[str, Any]:
        """Drop the keywords that this method's `observe` does not take."""
        if not hasattr(self, "_observe_names"):
            parameters = inspect.signature(self.observe).parameters
            open_ended = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
            self._observe_names = None if open_ended else set(parameters)
        if self._observe_names is None:
            return fields
        return {name: value for name, value in fields.items() if name in self._observe_names}
