"""One run: build, then for each task begin, observe over batches, end, evaluate; then the record is closed.

One function for an epoch, one for a task, one for a run, and no word about any single method.
"""

import copy
import os
import time
from argparse import Namespace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from backbone import get_backbone
from datasets import ContinualDataset, get_dataset
from mammoth import records
from mammoth.fitting import enough_after_epoch, make_early_stopping
from mammoth.interruption import StopRequest
from mammoth.records import Record
from mammoth.resume import Keeper, find_checkpoint
from mammoth.variation import VariationRecorder
from mammoth.watch import Tracker
from models import ContinualModel, added_folder, get_model
from utils import conf, randomness
from utils.evaluate import evaluate_tasks
from utils.loggers import LOG, append_logs, print_accuracies
from utils.metrics import forward_transfer
from utils.schedulers import get_scheduler
from utils.status import TaskBar
from utils.threads import RunSlot, choose_threads

ONE_IMAGE = (
    "batch norm cannot train on a batch of one image where the network's map is down to 1 x 1 (here a task's last batch, or "
    "a replay batch, may be one image).\nTry another --batch_size, --drop_last 1, a larger memory, or --backbone mnistmlp."
)
CHECK_EVERY = 50  # steps between two looks at the losses of a GPU, where each look waits for the device


class InputError(ValueError):
    """The arguments or the data are wrong; nothing has been trained."""


class TrainingDiverged(Exception):
    """A loss that is not finite."""


class BadMethod(TypeError):
    """A method that does not keep to what `ContinualModel` says of it."""


class Parts(NamedTuple):
    """What a run is made of."""

    model: ContinualModel
    dataset: ContinualDataset


class LossWatch:
    """Stops the run at the first loss that is not finite, without waiting for a GPU at each step; shows losses to a tracker."""

    def __init__(self, model: ContinualModel, task: int, tracker: Tracker | None = None) -> None:
        self.model = model
        self.task = task
        self.tracker = tracker
        self._pending: list[tuple[int, dict[str, Any]]] = []

    def look(self, observed: dict[str, Any]) -> None:
        """Note a step's losses; check them now, or every `CHECK_EVERY` steps if they live on a GPU.

        Raises:
            BadMethod: there is no loss; TrainingDiverged: one is not finite.
        """
        loss = checked_loss(observed, self.model)
        if self.tracker is not None:
            self.tracker.losses(observed)
        if not isinstance(loss, Tensor):
            loss = torch.tensor(float(loss))
        self._pending.append((self.model.task_iteration, {**observed, "loss": loss}))
        if loss.device.type == "cpu" or len(self._pending) >= CHECK_EVERY:
            self.check()

    def check(self) -> None:
        """Raise `TrainingDiverged` if a loss noted since the last check is not finite."""
        pending, self._pending = self._pending, []
        finite = [bool(seen["loss"].isfinite()) for _, seen in pending] if len(pending) < 2 else None
        if finite is None:
            finite = torch.stack([seen["loss"].detach().float() for _, seen in pending]).isfinite().tolist()
        for (step, seen), good in zip(pending, finite, strict=True):
            if not good:
                parts = ", ".join(f"{name} {float(value):g}" for name, value in seen.items())
                rate = self.model.opt.param_groups[0]["lr"]
                raise TrainingDiverged(
                    f"the loss is not finite at step {step} of task {self.task + 1} (lr {rate:g}; {parts}).\nTry a lower --lr."
                )


def checked_loss(observed: dict[str, Any], model: ContinualModel) -> Any:
    """Return the loss of a step. Raises BadMethod if it is missing, or neither a number nor a tensor of one."""
    loss = observed.get("loss", BadMethod)
    if isinstance(loss, Tensor) and loss.numel() == 1:
        return loss
    if hasattr(loss, "__float__") and not isinstance(loss, Tensor):
        return loss
    found = f"a tensor of shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else type(loss).__name__
    found = f"a dict with {', '.join(map(repr, observed)) or 'nothing in it'}" if loss is BadMethod else found
    raise BadMethod(f"observe() of {model.NAME} returned {found}; it must return the loss (one number), or a dict with key 'loss'")


def build(args: Namespace) -> Parts:
    """Seed everything and build benchmark, network and method.

    Raises:
        ValueError: the arguments do not fit the method, the benchmark or the network.
    """
    conf.set_random_seed(args.seed)
    conf.base_path(args.base_path)
    torch.set_float32_matmul_precision(("highest", "high", "medium")[args.code_optimization])
    dataset = get_dataset(args)
    with randomness.initialisation():
        backbone = get_backbone(args)
    model = get_model(args, backbone, dataset.get_loss(), dataset.get_transform(), dataset)
    LOG.info("Using backbone: %s", args.backbone)
    model.to(model.device)
    # methods of other people may flatten gradients with `view`, which wants the plain layout
    if added_folder(type(model)) is None and any(parameter.dim() == 4 for parameter in model.net.parameters()):
        model.net.to(memory_format=torch.channels_last)
    return Parts(model, dataset)


def train_epoch(parts: Parts, epoch: int, watch: LossWatch, bar: TaskBar, scheduler: Any, keeper: Keeper | None = None) -> None:
    """Go once over the task's images, or over the rest of them where the loader goes on within a pass."""
    model, dataset = parts
    loader = dataset.train_loader
    assert loader is not None
    for step, (inputs, labels, not_aug_inputs, *extras) in enumerate(loader, model.epoch_iteration):
        if (model.args.debug_mode and step > model.get_debug_iters()) or model.task_iteration == model.args.n_iters:
            break
        fields = dict(zip(loader.dataset.extra_return_fields, extras, strict=True))
        observed = model.meta_observe(inputs, labels, not_aug_inputs, epoch=epoch, **fields)
        watch.look(observed)
        bar.update(observed["loss"])
        if scheduler is not None and model.args.scheduler_mode == "iter":
            scheduler.step()
        if keeper is not None:
            keeper.after_step(epoch, scheduler)


def train_task(parts: Parts, tracker: Tracker | None = None, keeper: Keeper | None = None) -> None:
    """Train on the task whose loaders were made last: begin, all epochs (or those left of a resumed run), end."""
    model, dataset = parts
    args = model.args
    model.net.train()
    model.meta_begin_task(dataset)
    watch = LossWatch(model, dataset.current_task, tracker)
    assert dataset.train_loader is not None
    epochs = args.n_epochs if args.n_iters is None else -(-args.n_iters // len(dataset.train_loader))
    steps = args.n_iters or len(dataset.train_loader) * epochs
    scheduler = get_scheduler(model, args, reload_optim=False, span=steps if args.scheduler_mode == "iter" else epochs)
    bar = TaskBar(steps, dataset.current_task + 1, dataset.n_training_tasks, bool(args.non_verbose))
    stopping = make_early_stopping(args)
    try:
        begun = keeper.enter_task(scheduler, stopping) if keeper is not None else None
        for epoch in range(begun or 0, epochs):
            if epoch != begun:
                model.meta_begin_epoch(epoch, dataset)
            train_epoch(parts, epoch, watch, bar, scheduler, keeper)
            if scheduler is not None and args.scheduler_mode == "epoch":
                scheduler.step()
            model.meta_end_epoch(epoch, dataset)
            if enough_after_epoch(model, dataset, epoch, stopping):
                break
    finally:
        bar.close()
    watch.check()
    if stopping is not None:
        stopping.restore(model)
    model.meta_end_task(dataset)
    check_weights(model)


def check_weights(model: ContinualModel) -> None:
    """Raise `TrainingDiverged` if a weight is not finite at a task's end."""
    sums = torch.stack([parameter.detach().float().sum() for parameter in model.net.parameters()])
    if not bool((sums * 0 == 0).all()):
        raise TrainingDiverged(f"a weight is not finite at the end of task {model.current_task}.\nTry a lower --lr.")


def train(parts: Parts, args: Namespace, record: Record, tracker: Tracker, keeper: Keeper) -> None:
    """Go through the tasks, evaluating after each, into the record."""
    model, dataset = parts
    tasks = dataset.n_training_tasks
    recorder = keeper.recorder = VariationRecorder(model.net) if args.record_variation else None
    for _ in range(keeper.first_task):
        dataset.get_data_loaders()
    first = keeper.first_task
    keeper.restore()
    tracker.steps = keeper.steps
    before, spent = keeper.before, keeper.spent
    for task in range(first, min(tasks, args.stop_after or tasks)):
        dataset.get_data_loaders()
        started = time.perf_counter()
        if args.enable_other_metrics and task > 0 and not keeper.within_task:
            before += evaluate_tasks(model, dataset, range(task, task + 1)).class_il
        train_task(parts, tracker, keeper)
        trained = time.perf_counter()
        if recorder is not None:
            recorder.end_task(model.net)
            record.update(variation=recorder.content())
        found = evaluate_tasks(model, dataset, range(len(dataset.test_loaders)))
        accuracies = (found.class_il, found.task_il)
        model.meta_end_eval(dataset, accuracies)
        print_accuracies(dataset.SETTING, *accuracies, joint=dataset.joint)
        diagnostics = dict(getattr(model, "diagnostics", {}))
        if diagnostics:
            LOG.info("task %d: %s", task + 1, ", ".join(f"{name} {value:.4g}" for name, value in diagnostics.items()))
        spent["train_s"] += trained - started
        spent["evaluate_s"] += time.perf_counter() - trained
        spent["steps"] += model.task_iteration
        record["provenance"].update({name: round(value, 2) for name, value in spent.items()})
        record.add_stage(*accuracies, found.confusion, diagnostics)
        if args.eval_future and not dataset.joint:
            record.content.setdefault("future", []).append(_future_accuracies(model, dataset))
        tracker.evaluation(*accuracies, diagnostics)
        keeper.after_task()
    if args.enable_other_metrics:
        record.update(forward_transfer=forward_transfer(before, _untrained_accuracies(args, dataset)[1:]))


def _future_accuracies(model: ContinualModel, dataset: ContinualDataset) -> list[float]:
    """Return the accuracy over all outputs on each task that is still to come, in percent."""
    coming = range(len(dataset.test_loaders), dataset.N_TASKS)
    seen = list(dataset.test_loaders)
    dataset.test_loaders += [dataset.test_loader(task) for task in coming]
    found = evaluate_tasks(model, dataset, coming, all_outputs=True)
    dataset.test_loaders[:] = seen
    return found.class_il


def _untrained_accuracies(args: Namespace, dataset: ContinualDataset) -> list[float]:
    """Return the accuracy of a fresh network on each task that was trained."""
    with randomness.initialisation():
        backbone = get_backbone(args)
    model = get_model(args, backbone, dataset.get_loss(), dataset.get_transform(), dataset)
    model.to(model.device)
    return evaluate_tasks(model, dataset, range(len(dataset.test_loaders))).class_il


def prepare(args: Namespace, command: list[str]) -> tuple[Parts, Record]:
    """Build everything, read the images and make the record, which is on disk once training begins.

    Raises:
        InputError: the arguments do not fit, the data are missing or corrupt, or the results folder cannot be written.
    """
    try:
        parts = build(args)
    except (ValueError, OSError) as error:
        LOG.debug("the cause:", exc_info=True)
        raise InputError(str(error)) from error
    return parts, make_record(parts, args, command)


def make_record(parts: Parts, args: Namespace, command: list[str]) -> Record:
    """Read the images and make the record of a run that has been built; not on disk yet.

    Raises:
        InputError: the data are missing or corrupt, or the results folder cannot be written.
    """
    try:
        records.check_writable(args)
        data = describe_data(parts.dataset)
        parts.dataset.check_tasks()
        check_batch_of_one(parts)
    except (ValueError, OSError) as error:
        LOG.debug("the cause:", exc_info=True)
        raise InputError(str(error)) from error
    record = Record(args, command)
    record.update(data=data, **describe_tasks(parts.dataset))
    record["provenance"].update(describe_machine(parts))
    return record


def check_batch_of_one(parts: Parts) -> None:
    """Raise ValueError if a batch may be a single image and the network cannot train on one."""
    args = parts.model.args
    steps = parts.model.get_debug_iters() + 1 if args.debug_mode else args.n_iters or torch.inf
    if not parts.dataset.has_batch_of_one(steps):
        return
    height, width, channels = parts.dataset.SIZE
    net = copy.deepcopy(parts.model.net).train()
    with torch.random.fork_rng(), torch.no_grad():
        try:
            net(torch.zeros(1, channels, height, width, device=parts.model.device))
        except ValueError as error:
            if not is_of_one_image(error):
                raise
            raise ValueError(ONE_IMAGE) from error


def is_of_one_image(error: ValueError) -> bool:
    """Whether this is torch's complaint about batch norm over one value a channel."""
    return "more than 1 value per channel" in str(error)


def open_tracker(args: Namespace) -> Tracker:
    """Open the trackers that the flags ask for. Raises InputError if that cannot be done."""
    try:
        return Tracker(args)
    except ValueError as error:
        raise InputError(str(error)) from error


def open_keeper(parts: Parts, record: Record, stop: StopRequest) -> Keeper:
    """Find the checkpoint to go on from, if any. Raises InputError if it cannot be used; records on disk stay as they are."""
    try:
        return Keeper(*parts, record, stop, find_checkpoint(parts.model.args))
    except ValueError as error:
        raise InputError(str(error)) from error


def run(args: Namespace, command: list[str]) -> Record:
    """Do one run and return its closed record.

    Raises:
        InputError: the arguments or the data are wrong; nothing has been trained.
        TrainingDiverged: a loss that is not finite; the record is marked failed.
        BadMethod: the method returns no loss; the record is marked failed.
        OSError: the record cannot be written any more.
        KeyboardInterrupt: the record is marked interrupted; `Interrupted` if the state was saved too.
    """
    with RunSlot() as slot, open_tracker(args) as tracker:
        torch.set_num_threads(choose_threads(args.threads, slot.others()))
        parts, record = prepare(args, command)
        train_and_close(parts, args, record, tracker)
    return record


def train_and_close(parts: Parts, args: Namespace, record: Record, tracker: Tracker) -> None:
    """Open the record, train into it, from its checkpoint if the flags name one, close it, and write a line in logs.pyd."""
    with StopRequest() as stop:
        keeper = open_keeper(parts, record, stop)
        with record:
            train(parts, args, record, tracker, keeper)
            keeper.at_end()
    if not args.disable_log:
        append_logs(args, record.content, records.results_folder(args))


def describe_data(dataset: ContinualDataset) -> dict[str, Any]:
    """Read the images and say what they are."""
    counts = {split: len(dataset.split(train)) for split, train in (("train", True), ("test", False))}
    found = {"kind": dataset.data_kind(), "left_out": dataset.left_out(), "evaluated_on": dataset.evaluated_on()}
    return {"name": dataset.NAME, **counts, "fingerprint": dataset.fingerprint(), **found}


def describe_tasks(dataset: ContinualDataset) -> dict[str, Any]:
    """Return what a reader of the matrices needs: the classes of each task, in order."""
    return {
        "setting": dataset.SETTING,
        "class_order": dataset.class_order,
        "class_names": dataset.get_class_names(),
        "task_sizes": dataset.task_sizes,
        "joint": dataset.joint,
    }


def describe_machine(parts: Parts) -> dict[str, Any]:
    """Return what a run computes with: device, threads, code, parameters."""
    model, dataset = parts
    device = torch.cuda.get_device_name(model.device) if model.device.type == "cuda" else records.cpu_name()
    classes = (type(model), type(dataset))
    return {
        "device": f"{model.device.type}: {device}",
        "threads": torch.get_num_threads(),
        "cores": os.cpu_count(),
        "source_digest": records.source_digest(*classes),
        "parameters": sum(parameter.numel() for parameter in model.net.parameters()),
    }
