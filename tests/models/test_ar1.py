"""CWR* and AR1*: consolidation and importance against numbers worked out by hand, and both in small runs."""

import pytest
import torch
from small_runs import Flat, accuracy, after_tasks, method_around, restored, task_of, weights
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close

from backbone import get_backbone
from models import ar1
from models.cwr_star import consolidate, rows_to_train

DIGITS = ("--dataset", "seq-digits")
EXACT = {"rtol": 0.0, "atol": 0.0}


def vector(*values):
    """Return a float64 tensor."""
    return torch.tensor(values, dtype=torch.float64)


# -- CWR*: the equations ---------------------------------------------------------------------------------------------------


def test_consolidation_of_three_classes():
    """A known class, a new one and an absent one. avg = (1 + 3 + 5 + 7) / 4 = 4; class 0: r = sqrt(16 / 4) = 2."""
    saved = vector([10.0, 20.0], [0.0, 0.0], [6.0, 6.0])
    trained = vector([1.0, 3.0], [5.0, 7.0], [100.0, 100.0])
    found = consolidate(saved, torch.tensor([16, 0, 9]), trained, torch.tensor([4, 8, 0]))
    by_hand = [
        [(10 * 2 + (1 - 4)) / 3, (20 * 2 + (3 - 4)) / 3],
        [5 - 4, 7 - 4],
        [6, 6],
    ]
    assert_close(found, vector(*by_hand))


def test_mean_is_one_number_over_the_tasks_rows():
    """Shifting all rows of the task by the same amount changes nothing; shifting one column does (the mean is no vector)."""
    saved, past = torch.zeros(3, 2, dtype=torch.float64), torch.zeros(3, dtype=torch.int64)
    trained, count = vector([1.0, 3.0], [5.0, 7.0], [0.0, 0.0]), torch.tensor([1, 1, 0])
    plain = consolidate(saved, past, trained, count)
    assert_close(consolidate(saved, past, trained + 5, count), plain)
    assert not torch.allclose(consolidate(saved, past, trained + vector(5.0, 0.0), count), plain)


def test_only_current_rows_are_loaded():
    """Rows of classes that the task neither brings nor replays are zero in training."""
    saved = vector([1.0, 2.0], [3.0, 4.0], [5.0, 6.0])
    assert_close(rows_to_train(saved, torch.tensor([True, False, True])), vector([1.0, 2.0], [0.0, 0.0], [5.0, 6.0]), **EXACT)


# -- CWR*: the method ------------------------------------------------------------------------------------------------------


def step(method, *labels):
    """Do one step on random inputs of two features with these labels."""
    inputs = torch.randn(len(labels), 2)
    return method.meta_observe(inputs, torch.tensor(labels), inputs, epoch=0)


def test_two_tasks_by_hand():
    """Counts, loaded rows, consolidation and evaluation over two tasks; the memory holds one image, so one class is lost."""
    words = ("--replay_from_task", "2", "--replay_forward", "separate")
    method = method_around(Flat(torch.ones(4, 2), bias=torch.ones(4)), "cwr_star", *words, memory=1)
    head = method.net.classifier
    assert head.bias is None
    method.meta_begin_task(task_of(0, 2))
    assert not head.weight.any()
    step(method, 0, 1, 1)
    step(method, 0)
    trained = head.weight.detach().clone()
    method.meta_end_task(task_of(0, 2))
    assert method.past.tolist() == [2, 2, 0, 0]
    first = trained[:2] - trained[:2].mean()
    assert_close(head.weight[:2], first)
    assert not head.weight[2:].any()

    held = method.buffer.labels[:1].tolist()
    lost = {0, 1}.difference(held).pop()
    method.meta_begin_task(task_of(2, 4))
    assert_close(head.weight[held[0]], first[held[0]])
    assert not head.weight[[lost, 2, 3]].any()
    step(method, 2, 3, 2)
    current = [held[0], 2, 3]
    trained = head.weight.detach().clone()
    assert method.count[current].tolist() == [1, 2, 1]
    method.meta_end_task(task_of(2, 4))
    shifted = trained - trained[current].mean()
    ratio = 2**0.5
    assert_close(head.weight[held[0]], (first[held[0]] * ratio + shifted[held[0]]) / (ratio + 1))
    assert_close(head.weight[2:], shifted[2:])
    assert_close(head.weight[lost], first[lost], **EXACT)


def test_cosine_or_other_heads_are_refused():
    """CWR* averages rows of a linear classifier."""
    net = Flat(torch.ones(2, 2))
    net.classifier = nn.Identity()
    with pytest.raises(ValueError, match="linear classifier, not Identity"):
        method_around(net, "cwr_star")


# -- synaptic intelligence -------------------------------------------------------------------------------------------------


def test_importance_by_hand():
    """F = trajectory / (moved^2 + 1e-7); Omega = -F between 0 and 0.001."""
    total = ar1.accumulated(vector(0.0, 0.0, 0.0, -1e-4), vector(-2e-4, -8.0, 3.0, -1e-4), vector(1.0, 2.0, 1.0, 0.5))
    assert_close(total, vector(-2e-4, -2.0, 3.0, -1e-4 - 4e-4), rtol=1e-5, atol=0)
    assert_close(ar1.importance(total), vector(2e-4, 1e-3, 0.0, 5e-4), rtol=1e-5, atol=0)


def test_surrogate_loss_by_hand():
    """lambda / 2 (0.5 * 2^2 + 1 * 1^2) with lambda = 3."""
    assert ar1.surrogate_loss(vector(2.0, 0.0), vector(0.0, 1.0), vector(0.5, 1.0), 3.0) == 1.5 * 3.0


def test_trajectory_of_plain_sgd():
    """With SGD each step adds -lr g^2; F and the next task's penalty follow. The head is left out."""
    trunk = nn.Linear(2, 2, bias=False)
    method = method_around(Flat(torch.ones(4, 2), trunk=trunk), "ar1", "--ar1_lambda", "2", "--replay_from_task", "9", lr=0.5)
    method.meta_begin_task(task_of(0, 2))
    start, trajectory = trunk.weight.detach().clone(), torch.zeros(4)
    for labels in ((0, 1), (1, 1, 0)):
        step(method, *labels)
        trajectory -= 0.5 * trunk.weight.grad.reshape(-1) ** 2
    assert trajectory.any()
    assert_close(method.trajectory, trajectory)
    method.meta_end_task(task_of(0, 2))
    moved = (trunk.weight.detach() - start).reshape(-1)
    assert_close(method.total, trajectory / (moved**2 + 1e-7), rtol=1e-4, atol=0)
    method.meta_begin_task(task_of(2, 4))
    assert not method.trajectory.any()
    with torch.no_grad():
        trunk.weight += 1
    expected = (-method.total).clamp(0, 1e-3).sum()
    assert_close(method.losses(torch.zeros(1, 2), torch.tensor([2]))[1]["penalty"], expected)


def test_normalisation_and_classifier_are_left_out(resolve):
    """Only the other parameters are protected, whatever the layers are called."""
    args = resolve("--model", "ar1", *DIGITS, "--backbone", "reduced-resnet18")
    args.input_height = 32
    net = get_backbone(args)
    norms = sum(p.numel() for m in net.modules() if isinstance(m, nn.BatchNorm2d) for p in m.parameters())
    everything = sum(p.numel() for p in net.parameters())
    kept = sum(p.numel() for p in ar1.protected_parameters(net, net.classifier))
    assert norms > 0
    assert kept == everything - norms - sum(p.numel() for p in net.classifier.parameters())


# -- in runs ---------------------------------------------------------------------------------------------------------------


def test_without_penalty_ar1_is_cwr_star(resolve):
    """Bit for bit."""
    runs = [after_tasks(resolve("--model", name, *DIGITS, "--n_iters", "8"), 2)[0] for name in ("ar1", "cwr_star")]
    assert torch.equal(weights(runs[0]), weights(runs[1]))


def test_flags_change_the_weights(resolve):
    """Lambda, what is replayed, from when on, and how."""
    words = ("--model", "ar1", *DIGITS, "--n_iters", "8")
    variants = ("", "--ar1_lambda 50", "--replay_current 0", "--replay_from_task 1", "--replay_forward joint")
    found = [weights(after_tasks(resolve(*words, *variant.split()), 2)[0]) for variant in variants]
    assert all(not torch.equal(found[0], other) for other in found[1:])


@pytest.mark.parametrize("variant", ["cwr_star", "ar1 --ar1_lambda 50"])
def test_state_dict_carries_everything(variant, resolve):
    """A restored copy goes on as the original does, consolidation and penalty included; parameters() lists the network's only."""
    args = resolve("--model", *variant.split(), *DIGITS, "--n_iters", "8")
    method, dataset, _ = after_tasks(args, 2)
    other = restored(args, method)
    assert [id(p) for p in other.parameters()] == [id(p) for p in other.net.parameters()]
    other._current_task = method.current_task
    ends = []
    dataset.get_data_loaders()
    batches = [batch for batch, _ in zip(dataset.train_loader, range(4), strict=False)]
    for one in (method, other):
        one.net.train()
        one.meta_begin_task(dataset)
        one.buffer.get_data = lambda *_, **__: (batches[0][0], batches[0][1])
        for inputs, labels, raw in batches[1:]:
            one.meta_observe(inputs, labels, raw, epoch=0)
        one.meta_end_task(dataset)
        ends.append(weights(one))
    assert torch.equal(*ends)


def test_single_images_and_a_small_memory(resolve):
    """Batches of one image, and a memory of three for replay batches of five."""
    words = ("--batch_size", "1", "--buffer_size", "3", "--minibatch_size", "5", "--n_iters", "6")
    method, _, _ = after_tasks(resolve("--model", "ar1", "--ar1_lambda", "1", *DIGITS, *words), 3)
    assert weights(method).isfinite().all()
    assert int(method.past.sum()) == 3 * 6 + 2 * 6 * 3


def test_learns_the_digits(resolve):
    """Measured 85.0 (seed 0; 77.8 and 88.2 for seeds 1 and 2); chance is 10 and plain SGD ends near 20."""
    assert accuracy(resolve("--model", "ar1", *DIGITS)) > 70


def test_loss_is_what_was_trained():
    """The step reports the cross-entropy of the zero head, log of the number of classes, in the first step."""
    method = method_around(Flat(torch.ones(4, 2)), "cwr_star")
    method.meta_begin_task(task_of(0, 2))
    assert_close(step(method, 0, 1)["loss"], F.cross_entropy(torch.zeros(1, 4), torch.tensor([0])))
