"""iCaRL: losses, class means and herding against numbers worked out by hand, exemplars, and small runs in both variants."""

from itertools import pairwise
from math import exp, log

import pytest
import torch
from small_runs import Flat, accuracy, after_tasks, method_around, restored, task_of, weights
from torch import nn
from torch.testing import assert_close

from datasets.seq_digits import SequentialDigits
from models.icarl import (
    NEVER,
    FrozenCopy,
    binary_loss,
    class_means,
    herding,
    incremental_targets,
    nearest_mean_scores,
    split_evenly,
)

DIGITS = ("--model", "icarl", "--dataset", "seq-digits")
OFFLINE = (*DIGITS, "--dataset_config", "offline", "--n_epochs", "1")
EXACT = {"rtol": 0.0, "atol": 0.0}


def vector(*values):
    """Return a float64 tensor."""
    return torch.tensor(values, dtype=torch.float64)


def bce(logit, target):
    """Binary cross-entropy of one output."""
    probability = 1 / (1 + exp(-logit))
    return -target * log(probability) - (1 - target) * log(1 - probability)


# -- the equations ---------------------------------------------------------------------------------------------------------


def test_binary_loss_is_a_sum_over_outputs_and_a_mean_over_images():
    """Two images, three outputs."""
    logits, targets = [[1.0, -2.0, 0.0], [0.5, 0.0, 3.0]], [[1.0, 0.0, 0.0], [0.2, 0.9, 0.5]]
    by_hand = sum(bce(a, t) for row, want in zip(logits, targets, strict=True) for a, t in zip(row, want, strict=True)) / 2
    assert_close(binary_loss(vector(*logits), vector(*targets)), torch.tensor(by_hand, dtype=torch.float64))


def test_offline_targets_by_hand():
    """Four outputs of which three are seen and two are past: an exemplar of class 1, an image of class 2."""
    old = vector([0.0, log(3.0), 5.0, 9.0], [-log(3.0), 0.0, 5.0, 9.0])
    targets = incremental_targets(torch.tensor([1, 2]), old, n_past=2, n_seen=3)
    assert_close(targets, vector([0.5, 0.75, 0.0], [0.25, 0.5, 1.0]))


def test_class_means_by_hand():
    """Two images of class 0, one of class 2, none of class 1."""
    features = vector([1.0, 2.0], [5.0, 5.0], [3.0, 4.0])
    means, present = class_means(features, torch.tensor([0, 2, 0]), 3)
    assert means[[0, 2]].tolist() == [[2.0, 3.0], [5.0, 5.0]]
    assert present.tolist() == [True, False, True]
    scores = nearest_mean_scores(vector([2.0, 7.0]), means, present)
    assert scores.tolist() == [[-4.0, NEVER, pytest.approx(-(13**0.5))]]


def test_absent_class_never_wins():
    """Not even for a feature on the zeros that stand for its mean, with the others far away."""
    scores = nearest_mean_scores(vector([0.0, 0.0]), vector([1e6, 0.0], [0.0, 0.0]), torch.tensor([True, False]))
    assert scores.argmax(1).tolist() == [0]


def greedy(features, count):
    """Algorithm 4 by brute force: try every image left, measure the distance of the two means."""
    chosen = []
    for _ in range(count):
        left = [i for i in range(len(features)) if i not in chosen]
        gaps = {i: float((features[[*chosen, i]].mean(0) - features.mean(0)).norm()) for i in left}
        chosen.append(min(gaps, key=gaps.get))
    return chosen


def test_herding_of_five_points():
    """On a line with mean 3: first 3.5, then 2 (mean 2.75), then 4 (mean 3.167), then 5.5 (3.75) before 0 (2.375)."""
    line = vector([3.5], [2.0], [4.0], [0.0], [5.5])
    assert herding(line, 3).tolist() == [0, 1, 2]
    assert herding(line, 5).tolist() == greedy(line, 5)


def test_herding_agrees_with_brute_force():
    """Five points in the plane, many times; each prefix is the shorter choice, and asking for more gives all."""
    for seed in range(20):
        points = torch.randn(5, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
        assert herding(points, 5).tolist() == greedy(points, 5)
        assert herding(points, 2).tolist() == greedy(points, 5)[:2]
        assert sorted(herding(points, 9).tolist()) == [0, 1, 2, 3, 4]


def test_memory_is_split_evenly():
    """All of it, with shares that differ by one at most."""
    assert split_evenly(200, 4) == [50] * 4
    assert split_evenly(11, 4) == [3, 3, 3, 2]
    assert split_evenly(3, 5) == [1, 1, 1, 0, 0]


def test_frozen_copy():
    """It computes what the network did, stays in eval mode and lists no parameters; `state_dict` carries it."""
    net = Flat(torch.randn(3, 2), trunk=nn.BatchNorm1d(2))
    inputs = torch.randn(4, 2)
    owner = nn.Sequential(FrozenCopy(net))
    net.eval()
    expected = net(inputs).detach()
    net.train()
    net(inputs)
    nn.init.zeros_(net.classifier.weight)
    owner.train()
    assert_close(owner(inputs), expected, **EXACT)
    assert not owner(inputs).requires_grad
    assert not list(owner.parameters())
    assert {f"0.net.{name}" for name in net.state_dict()} == set(owner.state_dict())


# -- online: the method ----------------------------------------------------------------------------------------------------


def two_classes_learnt():
    """Return a method in its second task: classes 0 and 1 in the memory, and the network moved on since the task began."""
    method = method_around(Flat(torch.eye(4)[:, :2]), "icarl", "--replay_current", "0", "--replay_from_task", "2", batch=3)
    method.meta_begin_task(task_of(0, 2))
    method.buffer.add_data(examples=torch.tensor([[1.0, 0.0], [3.0, 0.0], [0.0, 2.0]]), labels=torch.tensor([0, 0, 1]))
    method.meta_end_task(task_of(0, 2))
    method.meta_begin_task(task_of(2, 4))
    with torch.no_grad():
        method.net.classifier.weight += 0.5
    return method


def test_online_losses_by_hand():
    """Stream: every output against one-hot. Replay: every output against the old network's sigmoid, whatever the label."""
    method = two_classes_learnt()
    head, old = method.net.classifier.weight.tolist(), torch.eye(4)[:, :2].tolist()

    def logits(rows, x):
        return [row[0] * x[0] + row[1] * x[1] for row in rows]

    past = [[1.0, 0.0], [3.0, 0.0], [0.0, 2.0]]
    pairs = [(a, 1 / (1 + exp(-b))) for x in past for a, b in zip(logits(head, x), logits(old, x), strict=True)]
    losses = method.losses(torch.tensor([[1.0, 1.0]]), torch.tensor([3]))[1]
    assert float(losses["distillation"].detach()) == pytest.approx(sum(bce(a, t) for a, t in pairs) / 3, rel=1e-5)
    stream = sum(bce(a, float(j == 3)) for j, a in enumerate(logits(head, [1.0, 1.0])))
    assert float(losses["stream"].detach()) == pytest.approx(stream, rel=1e-5)
    assert set(losses) == {"stream", "distillation"}


def test_distillation_is_on_past_tasks_only():
    """Images of the current task in the memory are not replayed."""
    method = two_classes_learnt()
    method.buffer.add_data(examples=torch.full((3, 2), 9.0), labels=torch.tensor([2, 3, 2]))
    assert method.draw()[0].max() < 9
    assert method.draw()[1].max() < 2


def test_prediction_is_by_means_of_the_memory():
    """Means (2, 0) and (0, 2); classes 2 and 3 have no images and never win."""
    method = two_classes_learnt()
    method.net.eval()
    scores = method(torch.tensor([[2.0, 0.0], [0.0, 5.0]]))
    assert scores.shape == (2, 4)
    assert_close(scores[:, :2], -torch.tensor([[0.0, 8**0.5], [29**0.5, 3.0]]))
    assert scores[:, 2:].eq(NEVER).all()


def test_means_are_made_again_only_after_a_step():
    """Several predictions share them; a step, or another state, makes them stale."""
    method = two_classes_learnt()
    asked = []
    original = method.features
    method.features = lambda batches: asked.append(1) or original(batches)
    inputs = torch.ones(1, 2)
    method(inputs)
    method(inputs)
    assert len(asked) == 1
    before = method.means[0].clone()
    method.meta_observe(torch.tensor([[8.0, 8.0]]), torch.tensor([2]), torch.tensor([[8.0, 8.0]]), epoch=0)
    method(inputs)
    assert len(asked) == 2
    assert not torch.equal(method.means[0], before)
    method.load_state_dict(method.state_dict())
    method(inputs)
    assert len(asked) == 3


def test_means_are_taken_in_eval_mode():
    """Batch norm's running statistics are used and left as they are, and the mode is put back."""
    norm = nn.BatchNorm1d(2)
    method = method_around(Flat(torch.eye(2), trunk=norm), "icarl")
    method.meta_begin_task(task_of(0, 2))
    method.buffer.add_data(examples=torch.tensor([[2.0, 0.0], [0.0, 2.0]]), labels=torch.tensor([0, 1]))
    features = method.features([torch.tensor([[2.0, 0.0]])])
    assert_close(features, torch.tensor([[2.0, 0.0]]), rtol=1e-4, atol=1e-4)
    assert norm.running_mean.tolist() == [0.0, 0.0]
    assert norm.training


def test_empty_memory_gives_the_networks_logits():
    """There are no means yet."""
    method = method_around(Flat(torch.eye(2)), "icarl")
    assert method(torch.tensor([[3.0, 4.0]])).tolist() == [[3.0, 4.0]]


# -- offline: the exemplars ------------------------------------------------------------------------------------------------


def test_exemplars_are_counted_trimmed_and_merged(resolve, monkeypatch):
    """Uneven tasks: 23 images over 3, 4, 6, 8, 10 classes; old classes keep a prefix; the next task trains on all of them."""
    monkeypatch.setattr(SequentialDigits, "N_CLASSES_PER_TASK", [3, 1, 2, 2, 2])
    kept, merged = [], []

    def look(method, dataset):
        kept.append([method.buffer.examples[: len(method.buffer)][method.buffer.labels == label] for label in range(10)])
        merged.append(dataset.train_loader.dataset)

    after_tasks(resolve(*OFFLINE, "--buffer_size", "23", "--minibatch_size", "4"), 5, look)
    assert [[len(rows) for rows in task if len(rows)] for task in kept] == [split_evenly(23, seen) for seen in (3, 4, 6, 8, 10)]
    for before, after in pairwise(kept):
        for old, new in zip(before, after, strict=True):
            if len(old):
                assert torch.equal(new, old[: len(new)])
    own = SequentialDigits.load(None, train=True)
    images, targets = merged[1].data, merged[1].targets
    assert targets.bincount()[:4].tolist() == [8, 8, 7, int((own.labels == 3).sum())]
    assert torch.equal(images[targets == 0].permute(0, 3, 1, 2).float() / 255, kept[0][0])


def test_exemplars_are_the_herded_images(resolve):
    """Those of the last task's classes, on the features of the network as it is, in herding order."""
    method, dataset, _ = after_tasks(resolve(*OFFLINE, "--buffer_size", "12"), 2)
    images = dataset.train_loader.dataset
    for label in (2, 3):
        raw = images.images((images.targets == label).nonzero()[:, 0])
        chosen = herding(method.features([raw]), 3)
        assert torch.equal(raw[chosen], method.buffer.examples[method.buffer.labels == label])


def test_memory_smaller_than_the_classes(resolve):
    """Seven images for ten classes: the first seven have one each, and prediction works."""
    method, _, matrix = after_tasks(resolve(*OFFLINE, "--buffer_size", "7"), 5)
    assert method.buffer.labels.tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert matrix[-1][-1] == 0.0


def test_offline_loss_by_hand():
    """A mean over seen outputs; past ones follow the network before the task; plus the sum of squares times wd_reg."""
    method = method_around(Flat(torch.eye(4)[:, :2]), "icarl", "--icarl_mode", "offline", "--wd_reg", "0.5")
    method._current_task = 1
    method.meta_begin_task(task_of(1, 3))
    with torch.no_grad():
        method.net.classifier.weight += 1
    losses = method.losses(torch.tensor([[1.0, 0.0]]), torch.tensor([2]))[1]
    by_hand = (bce(2.0, 1 / (1 + exp(-1))) + bce(1.0, 0.0) + bce(1.0, 1.0)) / 3
    assert float(losses["stream"].detach()) == pytest.approx(by_hand, rel=1e-5)
    assert float(losses["decay"].detach()) == pytest.approx(0.5 * (4 + 1 + 1 + 4 + 4))


# -- in runs ---------------------------------------------------------------------------------------------------------------


def test_flags_change_the_weights(resolve):
    """Mode and weight term, and what is replayed when."""
    words = (*DIGITS, "--n_iters", "8")
    variants = ("", "--icarl_mode offline", "--wd_reg 0.01", "--replay_current 1", "--replay_from_task 3")
    found = [weights(after_tasks(resolve(*words, *variant.split()), 2)[0]) for variant in variants]
    assert all(not torch.equal(found[0], other) for other in found[1:])


@pytest.mark.parametrize("mode", ["online", "offline"])
def test_state_dict_carries_everything(mode, resolve):
    """A restored copy predicts and distils alike; parameters() lists the network's only."""
    args = resolve(*DIGITS, "--icarl_mode", mode, "--n_iters", "8")
    method, dataset, _ = after_tasks(args, 2)
    other = restored(args, method)
    inputs = next(iter(dataset.test_loaders[0]))[0]
    for one in (method, other):
        one.net.eval()
    assert torch.equal(other(inputs), method(inputs))
    assert torch.equal(other.old_net(inputs), method.old_net(inputs))
    assert not torch.equal(method.old_net(inputs), method.net(inputs))
    assert [id(p) for p in other.parameters()] == [id(p) for p in other.net.parameters()]


def test_single_images_and_a_small_memory(resolve):
    """Batches of one image, and a memory of three for replay batches of five."""
    words = ("--batch_size", "1", "--buffer_size", "3", "--minibatch_size", "5", "--n_iters", "6")
    for mode in ("online", "offline"):
        assert weights(after_tasks(resolve(*DIGITS, "--icarl_mode", mode, *words), 3)[0]).isfinite().all()


def test_learns_the_digits(resolve):
    """Online measured 89.3 (seed 0; 91.8 and 91.5 for seeds 1 and 2); chance is 10 and plain SGD ends near 20."""
    assert accuracy(resolve(*DIGITS)) > 75


def test_learns_the_digits_offline(resolve):
    """With 5 epochs measured 84.2 (seed 0; 85.3 and 84.8); two are enough here."""
    assert accuracy(resolve(*DIGITS, "--dataset_config", "offline", "--n_epochs", "2")) > 60


def test_a_task_without_any_label_keeps_nothing(go):
    """Offline: so few labels that the first task has none; the run goes on, and keeps exemplars of the tasks that have some."""
    words = ("--dataset_config", "offline", "--n_epochs", "1", "--debug_mode", "1", "--stop_after", "2")
    record = go("--model", "icarl", *words, "--buffer_size", "20", "--label_perc", "0.001")
    assert len(record["class_il"]) == 2


def test_published_values_are_there(resolve):
    """`--model_config best` gives what Buzzega et al. used."""
    words = ("--model", "icarl", "--dataset", "seq-cifar10", "--model_config", "best", "--buffer_size")
    small, large = resolve(*words, "200"), resolve(*words, "5120")
    assert (small.lr, large.lr, small.wd_reg, small.n_epochs, small.icarl_mode) == (0.1, 0.03, 1e-5, 50, "offline")
