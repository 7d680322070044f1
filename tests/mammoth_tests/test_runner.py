"""One run: the order of hooks, the number of steps, schedules, forward transfer, joint training, and the watch over the loss."""

import json
from argparse import ArgumentParser
from itertools import pairwise
from types import SimpleNamespace

import pytest
import torch

import models
from datasets import ContinualDataset, get_dataset
from mammoth import runner
from mammoth.runner import CHECK_EVERY, LossWatch, TrainingDiverged
from models.sgd import Sgd

TRAIN_SIZES = [289, 289, 291, 289, 284]  # of the digits' five tasks


class Recorder(Sgd):
    """SGD that notes every hook, with the counters that it sees there."""

    NAME = "recorder"
    calls: list[tuple] = []

    @staticmethod
    def get_parser(parser: ArgumentParser) -> ArgumentParser:
        return parser

    def note(self, name, *more):
        self.calls.append((name, self.current_task, *more))

    def begin_task(self, dataset):
        self.note("begin_task", self.n_past_classes, self.n_seen_classes, self.n_classes_current_task, self.task_iteration)
        assert self.net.training
        assert dataset.current_task == self.current_task

    def begin_epoch(self, epoch, dataset):
        self.note("begin_epoch", epoch, self.epoch_iteration)

    def observe(self, inputs, labels, not_aug_inputs, epoch=None):
        self.note("observe", epoch, len(labels), self.task_iteration, self.epoch_iteration, self.opt.param_groups[0]["lr"])
        assert self.net.training
        return super().observe(inputs, labels, not_aug_inputs, epoch)

    def end_epoch(self, epoch, dataset):
        self.note("end_epoch", epoch)

    def end_task(self, dataset):
        self.note("end_task")

    def forward(self, x):
        if self.calls and self.calls[-1][0] != "evaluate":
            self.note("evaluate", self.n_past_classes, self.n_seen_classes)
        assert not self.net.training
        return super().forward(x)

    def end_eval(self, dataset, results):
        self.note("end_eval", [len(accuracies) for accuracies in results])
        assert self.net.training


@pytest.fixture
def calls(monkeypatch):
    """Register the recorder for this test; returns the list of calls that it fills."""
    made: list[tuple] = []
    monkeypatch.setitem(models._registry._entries, "recorder", Recorder)
    monkeypatch.setattr(Recorder, "calls", made)
    original = ContinualDataset.get_data_loaders

    def get_data_loaders(self):
        made.append(("get_data_loaders", self.c_task + 1))
        return original(self)

    monkeypatch.setattr(ContinualDataset, "get_data_loaders", get_data_loaders)
    return made


def names(calls):
    return [call[0] for call in calls]


def rates(calls):
    return [call[-1] for call in calls if call[0] == "observe"]


def test_hooks_come_in_mammoths_order(calls, go):
    """Contract 1.2, two tasks of two epochs of two steps: each hook in its place."""
    go("--model", "recorder", "--batch_size", "150", "--n_epochs", "2", "--stop_after", "2")
    epoch = ["begin_epoch", "observe", "observe", "end_epoch"]
    task = ["get_data_loaders", "begin_task", *epoch, *epoch, "end_task", "evaluate", "end_eval"]
    assert names(calls) == task * 2


def test_current_task_inside_each_hook(calls, go):
    """It is the task in training everywhere, and one more during evaluation only."""
    go("--model", "recorder", "--batch_size", "300", "--stop_after", "3")
    done = 0
    for name, task, *_ in calls:
        assert task == done + (name == "evaluate"), name
        done += name == "end_eval"
    assert [task for name, task, *_ in calls if name == "evaluate"] == [1, 2, 3]
    for name in ("begin_task", "observe", "end_task", "end_eval"):
        assert [call[1] for call in calls if call[0] == name] == [0, 1, 2]


def test_counters_of_classes_and_steps(calls, go):
    """Class counters are set at begin_task and stand during evaluation; step counters restart with task and epoch."""
    go("--model", "recorder", "--batch_size", "150", "--n_epochs", "2", "--stop_after", "2")
    assert [call[2:] for call in calls if call[0] == "begin_task"] == [(0, 2, 2, 0), (2, 4, 2, 0)]
    assert [call[2:] for call in calls if call[0] == "evaluate"] == [(0, 2), (2, 4)]
    assert [call[2:-1] for call in calls if call[0] == "observe"] == [
        (0, 150, 0, 0), (0, 139, 1, 1), (1, 150, 2, 0), (1, 139, 3, 1),
    ] * 2  # fmt: skip
    assert [call[-1] for call in calls if call[0] == "begin_epoch"] == [0] * 4


def test_class_counters_before_the_first_task(resolve):
    """They are -1, and current_task is 0, as a method's constructor sees them."""
    model, _ = runner.build(resolve("--model", "sgd"))
    assert (model.n_past_classes, model.n_seen_classes, model.n_classes_current_task, model.current_task) == (-1, -1, -1, 0)


def test_end_eval_gets_the_accuracies_of_the_tasks_so_far(calls, go):
    """One entry a task, Class-IL and Task-IL."""
    go("--model", "recorder", "--debug_mode", "1", "--stop_after", "3")
    assert [call[2] for call in calls if call[0] == "end_eval"] == [[1, 1], [2, 2], [3, 3]]


def test_one_dataset_loader_is_the_one_that_is_iterated(monkeypatch, go):
    """A method may change `dataset.train_loader.dataset` in begin_task, and the loop sees it."""

    def keep_ten(self, dataset):
        images = dataset.train_loader.dataset
        images.data, images.targets = images.data[:10], images.targets[:10]

    monkeypatch.setattr(Sgd, "begin_task", keep_ten)
    assert go("--model", "sgd", "--batch_size", "5", "--stop_after", "2")["provenance"]["steps"] == 4


# -- how many steps --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("memory", ["1", "20", "5000"])
def test_steps_do_not_depend_on_the_memory(memory, go):
    """Steps = epochs x ceil(n / batch), whatever the memory holds."""
    record = go("--model", "er", "--batch_size", "64", "--n_epochs", "2", "--buffer_size", memory)
    assert record["provenance"]["steps"] == sum(2 * -(-size // 64) for size in TRAIN_SIZES)


@pytest.mark.parametrize(
    ("words", "steps"),
    [
        (("--batch_size", "10"), 29 + 29),
        (("--batch_size", "10", "--drop_last", "1"), 28 + 28),
        (("--batch_size", "100", "--n_iters", "7"), 7 + 7),
        (("--batch_size", "100", "--n_iters", "2", "--n_epochs", "9"), 2 + 2),
        (("--debug_mode", "1", "--n_epochs", "2"), 12 + 12),
        (("--batch_size", "289"), 1 + 1),
    ],
)
def test_how_many_steps(words, steps, go):
    """Short last batches count unless dropped; --n_iters counts steps over as many epochs as it takes."""
    record = go("--model", "sgd", "--stop_after", "2", *words)
    assert record["provenance"]["steps"] == steps


def test_steps_in_a_task_without_a_full_batch(go):
    """--drop_last with a batch larger than the task, counted in steps: an error, not a division by zero."""
    with pytest.raises((runner.InputError, ValueError)):
        go("--model", "sgd", "--batch_size", "1000", "--drop_last", "1", "--n_iters", "3")


# -- schedules -------------------------------------------------------------------------------------------------------------


def test_a_constant_rate_by_default(calls, go):
    """No schedule: every step has --lr."""
    go("--model", "recorder", "--batch_size", "100", "--n_epochs", "3", "--lr", "0.2", "--stop_after", "1")
    assert rates(calls) == [0.2] * 9


def test_multistep_schedule_lowers_the_rate_at_its_milestones(calls, go):
    """By epochs; it starts anew with each task."""
    words = ("--lr_scheduler", "multisteplr", "--lr_milestones", "1,2", "--sched_multistep_lr_gamma", "0.5")
    go("--model", "recorder", "--batch_size", "150", "--n_epochs", "3", "--lr", "0.4", "--stop_after", "2", *words)
    assert rates(calls) == pytest.approx([0.4, 0.4, 0.2, 0.2, 0.1, 0.1] * 2)


def test_multistep_schedule_by_steps(calls, go):
    """--scheduler_mode iter: the milestones are steps."""
    words = ("--lr_scheduler", "multisteplr", "--lr_milestones", "1,3", "--scheduler_mode", "iter")
    go("--model", "recorder", "--batch_size", "60", "--lr", "1", "--stop_after", "1", *words)
    assert rates(calls) == pytest.approx([1, 0.1, 0.1, 0.01, 0.01])


def test_cosine_schedule_falls_to_zero_over_the_epochs(calls, go):
    """Epoch e of 4 has lr (1 + cos(pi e / 4)) / 2."""
    words = ("--lr_scheduler", "cosine", "--n_epochs", "4")
    go("--model", "recorder", "--batch_size", "300", "--lr", "1", "--stop_after", "1", *words)
    assert rates(calls) == pytest.approx([1, 0.853553, 0.5, 0.146447], abs=1e-5)


def test_cosine_schedule_by_steps_falls_over_the_task(calls, go):
    """--scheduler_mode iter: the rate falls from step to step and never rises again within a task."""
    words = ("--lr_scheduler", "cosine", "--scheduler_mode", "iter", "--n_epochs", "2")
    go("--model", "recorder", "--batch_size", "60", "--lr", "1", "--stop_after", "1", *words)
    assert len(rates(calls)) == 10
    assert all(later < earlier + 1e-9 for earlier, later in pairwise(rates(calls)))


# -- forward transfer, joint -------------------------------------------------------------------------------------------------


def test_forward_transfer_is_measured_before_each_task(monkeypatch, go):
    """FWT = mean over tasks 2.. of (accuracy just before training - that of fresh weights), with a scripted evaluation."""
    scripted, asked = [], []
    original = runner.evaluate_tasks

    def evaluate_tasks(model, dataset, tasks):
        asked.append((model.current_task, list(tasks)))
        found = original(model, dataset, tasks)
        scripted.append(found.class_il)
        return found

    monkeypatch.setattr(runner, "evaluate_tasks", evaluate_tasks)
    record = go("--model", "er", "--debug_mode", "1", "--stop_after", "3", "--enable_other_metrics", "1")
    assert asked == [(1, [0]), (1, [1]), (2, [0, 1]), (2, [2]), (3, [0, 1, 2]), (0, [0, 1, 2])]
    before, fresh = [scripted[1][0], scripted[3][0]], scripted[5][1:]
    assert record["forward_transfer"] == pytest.approx((before[0] - fresh[0] + before[1] - fresh[1]) / 2)


def test_forward_transfer_changes_no_other_number(go):
    """Measuring it draws from no generator that training uses."""
    words = ("--model", "er", "--debug_mode", "1", "--stop_after", "3")
    assert go(*words)["class_il"] == go(*words, "--enable_other_metrics", "1")["class_il"]


def test_no_forward_transfer_unless_asked(go):
    """The key is absent without the flag, and None where one stage cannot give it."""
    assert "forward_transfer" not in go("--model", "sgd", "--debug_mode", "1", "--stop_after", "2")
    assert go("--model", "sgd", "--debug_mode", "1", "--stop_after", "1", "--enable_other_metrics", "1")["forward_transfer"] is None


def test_joint_trains_once_on_everything_and_evaluates_each_task(calls, go):
    """--joint 1: one stage, all classes current, an accuracy for each of the five tasks."""
    record = go("--model", "recorder", "--joint", "1", "--batch_size", "500")
    assert names(calls) == [
        "get_data_loaders",
        "begin_task",
        "begin_epoch",
        *["observe"] * 3,
        "end_epoch",
        "end_task",
        "evaluate",
        "end_eval",
    ]
    assert calls[1] == ("begin_task", 0, 0, 10, 10, 0)
    assert [call[3] for call in calls if call[0] == "observe"] == [500, 500, 442]
    assert [len(row) for row in record["class_il"]] == [5]
    assert record["joint"] is True


def test_joint_is_sgd_on_everything(go):
    """The method `joint` is `sgd --joint 1`: the same numbers."""
    joint, sgd = go("--model", "joint"), go("--model", "sgd", "--joint", "1")
    assert joint["class_il"] == sgd["class_il"]
    assert joint["confusion"] == sgd["confusion"]


def test_validation_evaluates_on_held_out_training_images(resolve):
    """--validation 10 and 0.1 hold out a tenth of the training images, which are then not trained on."""
    for share in ("10", "0.1"):
        dataset = get_dataset(resolve("--model", "sgd", "--validation", share))
        assert (len(dataset.split(True)), len(dataset.split(False))) == (1298, 144)
    kept = {bytes(image.numpy()) for image in dataset.split(True).data}
    held = [bytes(image.numpy()) for image in dataset.split(False).data]
    assert sum(image in kept for image in held) <= 2  # the digits hold a few images twice


# -- the watch over the loss -------------------------------------------------------------------------------------------------


class OnGpu(torch.Tensor):
    """A loss that claims to live on a GPU."""

    @property
    def device(self):
        return torch.device("cuda")


def watch_with_steps(losses):
    """Show a watch one loss a step; returns the step at which it raised (None: never) and the error."""
    model = SimpleNamespace(task_iteration=0, opt=SimpleNamespace(param_groups=[{"lr": 0.25}]))
    watch = LossWatch(model, task=2)
    for step, loss in enumerate(losses, 1):
        model.task_iteration = step
        try:
            watch.look({"loss": loss, "replay": loss})
        except TrainingDiverged as error:
            return step, str(error)
    try:
        watch.check()
    except TrainingDiverged as error:
        return "end", str(error)
    return None, ""


def on_gpu(values):
    return [torch.tensor(value).as_subclass(OnGpu) for value in values]


@pytest.mark.parametrize("kind", [float, torch.tensor])
def test_a_loss_on_the_cpu_stops_at_once(kind):
    """A float or a tensor: the very step is named, with task, rate and parts."""
    step, message = watch_with_steps([kind(1.0), kind(float("inf")), kind(1.0)])
    assert step == 2
    assert "step 2 of task 3 (lr 0.25; loss inf, replay inf)" in message


def test_losses_on_a_gpu_are_looked_at_in_batches():
    """The device is asked every CHECK_EVERY steps only, and the first bad step is the one named."""
    values = [1.0] * (2 * CHECK_EVERY)
    values[CHECK_EVERY + 3] = values[CHECK_EVERY + 9] = float("nan")
    step, message = watch_with_steps(on_gpu(values))
    assert step == 2 * CHECK_EVERY
    assert f"step {CHECK_EVERY + 4} of task 3" in message
    assert "loss nan, replay nan" in message


def test_losses_on_a_gpu_at_the_end_of_a_task_are_looked_at_too():
    """Fewer steps than a batch: the check at the end of the task finds it."""
    step, message = watch_with_steps(on_gpu([1.0, float("nan"), 1.0]))
    assert step == "end"
    assert "step 2 of task 3" in message


def test_finite_losses_never_stop_a_run():
    """Neither on a CPU nor on a GPU."""
    assert watch_with_steps([1.0] * 200) == (None, "")
    assert watch_with_steps(on_gpu([1.0] * 200)) == (None, "")


# -- what comes out ----------------------------------------------------------------------------------------------------------


def test_the_confusion_matrix_counts_every_test_image(go):
    """After each task: one row a true class, only classes so far, and the accuracies follow from it."""
    record = go("--model", "er", "--n_iters", "6", "--stop_after", "2")
    confusion = torch.tensor(record["confusion"][1])
    assert confusion.shape == (10, 10)
    assert confusion[:4].sum(1).tolist() == [35, 36, 35, 36]
    assert confusion[4:].sum() == 0
    for task, accuracy in enumerate(record["class_il"][1]):
        rows = confusion[2 * task : 2 * task + 2]
        right = rows[0, 2 * task] + rows[1, 2 * task + 1]
        assert accuracy == pytest.approx(100 * float(right) / float(rows.sum()), abs=1e-3)


def test_two_runs_in_one_process_do_not_touch_each_other(go):
    """A run between two others changes nothing: no state is left behind."""
    words = ("--model", "derpp", "--debug_mode", "1", "--stop_after", "2")
    first = go(*words)
    go("--model", "pvbf", "--debug_mode", "1", "--seed", "5")
    again = go(*words)
    for key in ("class_il", "task_il", "confusion"):
        assert json.dumps(again[key]) == json.dumps(first[key])
