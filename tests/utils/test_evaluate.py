"""Evaluation: known models on the digits have known accuracies."""

from argparse import Namespace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from datasets import get_dataset
from utils.evaluate import evaluate, evaluate_tasks


class Net(nn.Module):
    """A network with batch norm, whose running statistics must not move in evaluation."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(64)
        self.head = nn.Linear(64, 10)

    def forward(self, x):
        return self.head(self.norm(x.flatten(1)))


class Model:
    """What `evaluate` needs of a method: logits from a function of the images."""

    def __init__(self, logits=None, eval_classes="seen", debug_mode=0, net=None):
        self.net = net or Net()
        self.device = torch.device("cpu")
        self.args = Namespace(eval_classes=eval_classes, debug_mode=debug_mode)
        self.logits = logits or self.net
        self.loss = F.cross_entropy
        self.seen = 0

    def get_debug_iters(self):
        return 0

    def __call__(self, inputs):
        self.seen += len(inputs)
        assert not self.net.training
        return self.logits(inputs)


def digits(tasks=5, **flags):
    """Return the digits after some tasks were begun."""
    defaults = {"dataset": "seq-digits", "dataset_config": None, "batch_size": 10, "device": "cpu"}
    dataset = get_dataset(Namespace(**{**defaults, **flags}))
    for _ in range(1 if flags.get("joint") else tasks):
        dataset.get_data_loaders()
    return dataset


def oracle(dataset, scale=1.0):
    """Return a function that knows the label of every test image (no two of which are alike in content)."""
    known = {}
    for loader in dataset.test_loaders:
        for images, labels, *_ in loader:
            known |= {image.numpy().tobytes(): label for image, label in zip(images, labels.tolist(), strict=True)}

    def logits(images):
        labels = torch.tensor([known[image.numpy().tobytes()] for image in images])
        return scale * F.one_hot(labels, 10).float()

    return logits


def constant(favourite):
    """Return a function that favours one class whatever it sees, then class 9, then 8, ..."""

    def logits(images):
        row = torch.arange(10.0)
        row[favourite] = 100.0
        return row.expand(len(images), 10)

    return logits


@pytest.mark.parametrize("eval_classes", ["all", "seen"])
@pytest.mark.parametrize("tasks", [1, 3, 5])
def test_an_oracle_scores_100_on_every_task(tasks, eval_classes):
    """One-hot labels, Class-IL and Task-IL."""
    dataset = digits(tasks)
    assert evaluate(Model(oracle(dataset), eval_classes), dataset) == ([100.0] * tasks, [100.0] * tasks)


def test_an_oracle_scores_100_under_a_class_order():
    """Labels are renumbered, offsets with them."""
    dataset = digits(custom_class_order="3,1,4,5,9,2,6,8,7,0")
    assert evaluate(Model(oracle(dataset)), dataset) == ([100.0] * 5, [100.0] * 5)


def test_an_oracle_scores_100_in_a_joint_run():
    """All tasks after one stage, argmax over all classes."""
    dataset = digits(joint=1)
    assert evaluate(Model(oracle(dataset)), dataset) == ([100.0] * 5, [100.0] * 5)


def test_the_opposite_of_an_oracle_scores_0():
    """Minus the one-hot labels."""
    dataset = digits()
    assert evaluate(Model(oracle(dataset, -1.0)), dataset) == ([0.0] * 5, [0.0] * 5)


@pytest.mark.parametrize("seed", range(5))
def test_task_il_is_at_least_class_il(seed):
    """Fewer rivals cannot hurt; a random network, every number of tasks."""
    torch.manual_seed(seed)
    dataset = digits(seed + 1)
    class_il, task_il = evaluate(Model(), dataset)
    assert all(one <= other for one, other in zip(class_il, task_il, strict=True))
    assert 0 < sum(task_il) < 100 * (seed + 1)


def test_eval_classes_all_lets_unseen_classes_win():
    """After 2 tasks a model that favours class 7 is right nowhere if all outputs count, and says class 3 if only those seen do."""
    dataset = digits(2)
    everything, seen = (evaluate_tasks(Model(constant(7), which), dataset, range(2)) for which in ("all", "seen"))
    threes = int((dataset.split(train=False).targets == 3).sum())
    twos = int((dataset.split(train=False).targets == 2).sum())
    assert everything.class_il == [0.0, 0.0]
    assert seen.class_il == [0.0, pytest.approx(100 * threes / (twos + threes), abs=1e-3)]
    assert everything.task_il == seen.task_il
    assert sum(row[7] for row in everything.confusion) == sum(row[3] for row in seen.confusion) == sum(map(sum, seen.confusion))


@pytest.mark.parametrize("training", [True, False])
def test_the_networks_mode_is_put_back(training):
    """Training or not, as it was."""
    model = Model()
    model.net.train(training)
    evaluate(model, digits(1))
    assert model.net.training is training
    assert model.net.norm.training is training


def test_a_frozen_layer_stays_frozen():
    """Batch norm in eval mode inside a network in training mode is still so afterwards."""
    model = Model()
    model.net.train()
    model.net.norm.eval()
    evaluate(model, digits(1))
    assert model.net.training
    assert not model.net.norm.training


def test_evaluation_changes_no_statistics_and_draws_nothing():
    """Batch norm's running mean, and the global generator."""
    model, dataset = Model(), digits(2)
    before = (model.net.norm.running_mean.clone(), torch.get_rng_state())
    evaluate(model, dataset)
    assert torch.equal(model.net.norm.running_mean, before[0])
    assert torch.equal(torch.get_rng_state(), before[1])


def test_the_confusion_matrix_counts_every_test_image_once():
    """Row sums are the classes' test images, the diagonal is Class-IL accuracy."""
    dataset = digits(3)
    found = evaluate_tasks(Model(), dataset, range(3))
    counts = torch.bincount(dataset.split(train=False).targets, minlength=10).tolist()
    assert [sum(row) for row in found.confusion] == counts[:6] + [0] * 4
    for task in range(3):
        pair = (2 * task, 2 * task + 1)
        right = sum(found.confusion[label][label] for label in pair)
        assert found.class_il[task] == pytest.approx(100 * right / sum(counts[label] for label in pair), abs=1e-3)


def test_the_confusion_matrix_has_true_classes_as_rows():
    """A model that always says class 2: column 2 holds everything."""
    found = evaluate_tasks(Model(constant(2)), digits(2), range(2))
    assert [row[2] for row in found.confusion] == [sum(row) for row in found.confusion]
    assert sum(sum(row) for row in found.confusion) > 0


def test_last_evaluates_the_newest_task_alone():
    """One entry each, equal to the last of the full evaluation; no other image is looked at."""
    model, dataset = Model(), digits(3)
    everything = evaluate(model, dataset)
    model.seen = 0
    assert evaluate(model, dataset, last=True) == (everything[0][-1:], everything[1][-1:])
    assert model.seen == len(dataset.test_loaders[-1].dataset)


def test_the_loss_is_the_mean_over_images_and_tasks():
    """Zero logits: log 10."""
    model = Model(lambda images: torch.zeros(len(images), 10))
    class_il, task_il, loss = evaluate(model, digits(2), return_loss=True)
    assert len(class_il) == len(task_il) == 2
    assert loss == pytest.approx(torch.tensor(10.0).log().item(), abs=1e-5)


def test_debug_mode_stops_after_a_few_batches(monkeypatch):
    """Only the first batch here (`get_debug_iters` is 0); accuracies are those of the images looked at."""
    dataset = digits(1)
    monkeypatch.setattr(dataset.test_loaders[0], "batch_size", 10)
    model = Model(oracle(dataset), debug_mode=1)
    assert evaluate(model, dataset) == ([100.0], [100.0])
    assert model.seen == 10


def test_fewer_columns_than_classes_are_enough():
    """iCaRL returns the classes seen only."""
    dataset = digits(2)
    full = oracle(dataset)
    model = Model(lambda images: full(images)[:, :4])
    assert evaluate(model, dataset) == ([100.0, 100.0], [100.0, 100.0])


def test_domain_il_has_no_task_il():
    """All zeros, as upstream."""
    dataset = digits(2)
    dataset.SETTING = "domain-il"
    assert evaluate(Model(oracle(dataset)), dataset)[1] == [0.0, 0.0]


def test_a_method_for_task_il_alone_is_told_the_task():
    """It is called with the task's index, Class-IL is 0 and Task-IL is as found; a method that can do both is never told."""
    dataset = digits(3)
    right = oracle(dataset)

    class Told(Model):
        COMPATIBILITY = ["task-il"]

        def __call__(self, inputs, task):
            self.told = [*getattr(self, "told", []), task]
            return super().__call__(inputs) * (1 if task == 1 else -1)

    model = Told(right)
    assert evaluate(model, dataset) == ([0.0] * 3, [0.0, 100.0, 0.0])
    assert sorted(set(model.told)) == [0, 1, 2]
    both = Model(right)
    both.COMPATIBILITY = ["task-il", "class-il"]
    assert evaluate(both, dataset) == ([100.0] * 3, [100.0] * 3)
