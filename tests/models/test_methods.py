"""What sets each method apart from its relatives, measured on single steps and by counting what is replayed."""

from collections import Counter
from itertools import chain

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from backbone import MammothBackbone
from datasets.utils.image_set import ImageSet
from mammoth import runner
from models.er import Er
from models.er_ace import CosineHead


@pytest.fixture
def built(resolve):
    """Return a function from words of a command line to (model, dataset), ready for the first task."""

    def build(*words):
        return runner.build(resolve(*words))

    return build


def tasks(model, dataset, count, steps=None):
    """Go through `count` tasks, yielding the task's number while each is in training, after every step."""
    model.net.train()
    for task in range(count):
        dataset.get_data_loaders()
        model.meta_begin_task(dataset)
        for step, batch in enumerate(dataset.train_loader):
            if step == steps:
                break
            model.meta_observe(*batch, epoch=0)
            yield task
        model.meta_end_task(dataset)


def watch_draws(model):
    """Return a list that fills with the labels of every replay draw."""
    drawn = []
    get_data = model.buffer.get_data

    def watched(*words, **options):
        rows = get_data(*words, **options)
        drawn.append(rows[1].tolist())
        return rows

    model.buffer.get_data = watched
    return drawn


# -- ER: what is replayed, and when ------------------------------------------------------------------------------------------


def test_er_never_replays_the_current_task_online(built):
    """Every label drawn in task t is of an earlier task, all past classes are drawn, ten images a step, none in task 1."""
    model, dataset = built("--model", "er")
    drawn, seen = watch_draws(model), {task: [] for task in range(3)}
    for task in tasks(model, dataset, 3):
        seen[task] += drawn
        drawn.clear()
    assert seen[0] == []
    assert set(chain(*seen[1])) == {0, 1}
    assert set(chain(*seen[2])) == {0, 1, 2, 3}
    assert {len(labels) for task in (1, 2) for labels in seen[task]} == {10}
    assert (len(seen[1]), len(seen[2])) == (29, 30)


def test_er_replays_the_current_task_when_told(built):
    """--replay_current 1: the current task's labels are drawn about as often as they stand in the memory."""
    model, dataset = built("--model", "er", "--replay_current", "1", "--buffer_size", "50")
    drawn = watch_draws(model)
    share = []
    for task in tasks(model, dataset, 2):
        if task == 1:
            share.append(float((model.buffer.labels[:50] >= 2).float().mean()))
    labels = Counter(label >= 2 for batch in drawn for label in batch)
    expected = sum(share) / len(share)
    assert labels[True] / labels.total() == pytest.approx(expected, abs=0.1)
    assert expected > 0.15


@pytest.mark.parametrize("first", [1, 2, 3])
def test_er_replays_from_the_task_asked_for(first, built):
    """--replay_from_task N: no draw before task N, a draw at each step from then on (in task 1, from the second step)."""
    model, dataset = built("--model", "er", "--replay_current", "1", "--replay_from_task", str(first))
    drawn, count = watch_draws(model), Counter()
    for task in tasks(model, dataset, 3, steps=5):
        count[task + 1] += len(drawn)
        drawn.clear()
    assert [count[task] for task in (1, 2, 3)] == [0 if task < first else 4 if task == 1 else 5 for task in (1, 2, 3)]


def test_er_offline_replays_as_soon_as_there_is_a_memory(built):
    """The offline defaults: from the second step of the first task, current images included."""
    model, dataset = built("--model", "er", "--dataset_config", "offline")
    drawn = watch_draws(model)
    steps = len(list(tasks(model, dataset, 1, steps=4)))
    assert (steps, len(drawn)) == (4, 3)


# -- ER: one forward pass or two -----------------------------------------------------------------------------------------------


class Normed(MammothBackbone):
    """A linear classifier on batch-normalised pixels."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(64)
        self.classifier = nn.Linear(64, 10)

    def features(self, x):
        return self.norm(torch.flatten(x, 1))


def er_step(built, forward):
    """One step of ER on a network with batch norm: (model, losses, stream batch, replayed batch, loss function's network)."""
    reference, dataset = built("--model", "er", "--replay_forward", forward, "--replay_current", "1", "--replay_from_task", "1")
    torch.manual_seed(0)
    model = Er(Normed(), F.cross_entropy, reference.args, reference.transform, dataset)
    before = Normed()
    before.load_state_dict(model.net.state_dict())
    dataset.get_data_loaders()
    model.meta_begin_task(dataset)
    batches = list(dataset.train_loader)
    model.buffer.add_data(examples=batches[0][2], labels=batches[0][1])
    drawn = []
    get_data = model.buffer.get_data
    model.buffer.get_data = lambda *words, **options: drawn.append(get_data(*words, **options)) or drawn[-1]
    observed = model.meta_observe(*batches[1], epoch=0)
    ((images, labels),) = drawn
    return model, observed, batches[1][:2], (images, labels), before


def test_er_separate_passes_have_their_own_statistics(built):
    """Two passes: the running mean moves by the stream's mean, then by replay's; the loss is the sum of two means."""
    model, observed, (x, y), (xr, yr), net = er_step(built, "separate")
    moved = 0.9 * (0.1 * x.flatten(1).mean(0)) + 0.1 * xr.flatten(1).mean(0)
    assert torch.allclose(model.net.norm.running_mean, moved, atol=1e-6)
    assert int(model.net.norm.num_batches_tracked) == 2
    loss = F.cross_entropy(net(x), y) + F.cross_entropy(net(xr), yr)
    assert float(observed["loss"]) == pytest.approx(float(loss.detach()), abs=1e-5)


def test_er_joint_pass_is_one_mean_over_all(built):
    """One pass: the running mean moves once, by the mean of all twenty images; the loss is one mean over them."""
    model, observed, (x, y), (xr, yr), net = er_step(built, "joint")
    both, labels = torch.cat([x, xr]), torch.cat([y, yr])
    assert torch.allclose(model.net.norm.running_mean, 0.1 * both.flatten(1).mean(0), atol=1e-6)
    assert int(model.net.norm.num_batches_tracked) == 1
    assert float(observed["loss"]) == pytest.approx(float(F.cross_entropy(net(both), labels).detach()), abs=1e-5)


def test_er_forgets_less_than_sgd(go):
    """A whole run on the digits: ER keeps the first task, SGD loses it."""
    assert go("--model", "er")["class_il"][-1][0] > 50
    assert go("--model", "sgd")["class_il"][-1][0] < 10


def test_er_with_no_replay_is_sgd(go):
    """Replay from a task that never comes: the same matrices as SGD with that seed."""
    assert go("--model", "er", "--replay_from_task", "9")["class_il"] == go("--model", "sgd")["class_il"]


# -- DER and DER++ -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["der", "derpp"])
def test_stored_logits_are_of_the_augmented_image_before_the_update(method, built):
    """The memory holds the un-augmented image beside the logits that the network gave for the augmented one, before the step."""
    model, dataset = built("--model", method)
    dataset.get_data_loaders()
    model.meta_begin_task(dataset)
    raw, labels = torch.rand(10, 1, 8, 8), torch.arange(10) % 2
    augmented = torch.rand(10, 1, 8, 8) * 2 - 1
    with torch.no_grad():
        before, of_raw = model.net(augmented), model.net(raw)
    model.meta_observe(augmented, labels, raw, epoch=0)
    assert torch.allclose(model.buffer.logits[:10], before, atol=1e-6)
    assert not torch.allclose(model.buffer.logits[:10], model.net(augmented), atol=1e-3)
    assert not torch.allclose(model.buffer.logits[:10], of_raw, atol=1e-3)
    assert torch.allclose(model.buffer.examples[:10], raw, atol=1e-6)
    assert model.buffer.labels[:10].tolist() == labels.tolist()


def replay_losses(model, dataset):
    """Fill a memory of six known rows, draw them all, and return (losses, logits of the network, stored logits, labels)."""
    dataset.get_data_loaders()
    model.meta_begin_task(dataset)
    images, _, raw = next(iter(dataset.train_loader))
    labels, stored = torch.arange(6), torch.randn(6, 10)
    model.buffer.add_data(examples=raw[:6], labels=labels, logits=stored)
    model.buffer.mark_past()
    with torch.no_grad():
        return model.replay_losses(), model.net(images[:6]), stored, labels


def test_ders_distillation_is_a_mean_over_images_and_classes(built):
    """alpha times the mean of all 6 x 10 squared differences."""
    losses, logits, stored, _ = replay_losses(*built("--model", "der", "--alpha", "0.3", "--minibatch_size", "6"))
    assert set(losses) == {"distillation"}
    assert float(losses["distillation"]) == pytest.approx(0.3 * float((logits - stored).square().sum()) / 60, rel=1e-5)


def test_derpp_adds_a_weighted_cross_entropy(built):
    """DER's term, and beta times the mean cross-entropy of the labels over all outputs."""
    words = ("--model", "derpp", "--alpha", "0.3", "--beta", "0.7", "--minibatch_size", "6")
    losses, logits, stored, labels = replay_losses(*built(*words))
    assert float(losses["distillation"]) == pytest.approx(0.3 * float((logits - stored).square().mean()), rel=1e-5)
    assert float(losses["replay"]) == pytest.approx(0.7 * float(F.cross_entropy(logits, labels)), rel=1e-5)


def test_derpp_draws_twice_and_independently(built):
    """Two draws a step; over a task they share about 10/200 x 10 images by chance, not all of them."""
    model, dataset = built("--model", "derpp", "--replay_current", "1")
    slots = []
    draw = model.buffer._draw
    model.buffer._draw = lambda *words: slots.append(draw(*words)) or slots[-1]
    steps = sum(task == 1 for task in tasks(model, dataset, 2))
    assert len(slots) == 2 * steps
    shared = [len(set(first.tolist()) & set(second.tolist())) for first, second in zip(slots[::2], slots[1::2], strict=True)]
    assert all(len(set(draw.tolist())) == 10 for draw in slots)
    assert sum(shared) / len(shared) < 2


def test_derpp_without_its_labels_term_is_der_in_loss(built):
    """beta 0: the sum of the losses is DER's."""
    derpp, *_ = replay_losses(*built("--model", "derpp", "--beta", "0", "--minibatch_size", "6"))
    assert float(derpp["replay"]) == 0
    assert float(derpp["distillation"]) > 0


# -- ER-ACE --------------------------------------------------------------------------------------------------------------------


def row_gradients(model, dataset, labels, task=0):
    """Size of the gradient of each classifier row from the stream's loss on a batch of these labels, in the given task."""
    for _ in range(task + 1):
        dataset.get_data_loaders()
        model.meta_begin_task(dataset)
    images = torch.rand(len(labels), 1, 8, 8)
    model.net.zero_grad()
    model.stream_loss(model.net(images), torch.tensor(labels)).backward()
    return model.net.classifier.weight.grad.abs().sum(1)


def test_er_ace_leaves_absent_classes_alone(built):
    """The stream's gradient of every row whose class is not in the batch is exactly zero, bias included."""
    model, dataset = built("--model", "er_ace")
    sizes = row_gradients(model, dataset, [2, 3, 3], task=1)
    assert (sizes[[2, 3]] > 0).all()
    assert (sizes[[0, 1, 4, 5, 6, 7, 8, 9]] == 0).all()
    assert model.net.classifier.bias.grad[[0, 1, 4]].tolist() == [0, 0, 0]


def test_er_ace_unseen_pushes_the_classes_to_come_too(built):
    """--stream_classes unseen: rows of classes not met yet get a gradient, past classes outside the batch do not."""
    model, dataset = built("--model", "er_ace", "--stream_classes", "unseen")
    sizes = row_gradients(model, dataset, [3, 3, 3], task=1)
    assert (sizes[[3, 4, 5, 6, 7, 8, 9]] > 0).all()
    assert (sizes[[0, 1, 2]] == 0).all()


@pytest.mark.parametrize(("which", "rows"), [("seen", 4), ("all", 10)])
def test_er_ace_replays_over_the_classes_asked_for(which, rows, built):
    """Replay's softmax covers the classes seen, or all: the rows beyond get no gradient."""
    model, dataset = built("--model", "er_ace", "--replay_classes", which)
    for _ in range(2):
        dataset.get_data_loaders()
        model.meta_begin_task(dataset)
    model.buffer.add_data(examples=torch.rand(8, 1, 8, 8), labels=torch.arange(8) % 4)
    sum(model.replay_losses().values()).backward()
    sizes = model.net.classifier.weight.grad.abs().sum(1)
    assert (sizes[:rows] > 0).all()
    assert (sizes[rows:] == 0).all()


def test_er_ace_replays_from_the_second_task_and_the_whole_memory(built):
    """No replay in task 1; from task 2 on the current task's images are drawn too."""
    model, dataset = built("--model", "er_ace")
    drawn = watch_draws(model)
    first = [len(drawn) for task in tasks(model, dataset, 2) if task == 0]
    assert first[-1] == 0
    assert {0, 1, 2, 3} == {label for labels in drawn for label in labels}


def test_cosine_head_is_scaled_cosines():
    """By hand, against the formula; no bias; the length of the features does not matter."""
    torch.manual_seed(0)
    linear = nn.Linear(5, 3)
    head = CosineHead(linear)
    x = torch.randn(4, 5)
    for i in range(4):
        for j in range(3):
            row = linear.weight.detach()[j]
            cosine = float(x[i] @ row / (x[i].norm() * row.norm()))
            assert float(head(x).detach()[i, j]) == pytest.approx(10 * cosine, abs=1e-4)
    assert torch.allclose(head(7 * x), head(x), atol=1e-4)
    assert [name for name, _ in head.named_parameters()] == ["weight"]
    assert (head.in_features, head.out_features) == (5, 3)


def test_er_ace_with_a_cosine_head_is_trained(built):
    """--head cosine: the head is in the network, its weights are the optimiser's, and a step moves them."""
    model, dataset = built("--model", "er_ace", "--head", "cosine")
    assert isinstance(model.net.classifier, CosineHead)
    before = model.net.classifier.weight.detach().clone()
    list(tasks(model, dataset, 1, steps=2))
    assert not torch.equal(before, model.net.classifier.weight)
    assert float(model(torch.rand(9, 1, 8, 8)).detach().abs().max()) <= 10 + 1e-4


# -- joint and IID -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def images_used(monkeypatch):
    """A counter of how often each row of the training set was put into a batch, and the size of each batch."""
    used, sizes = Counter(), []
    batch = ImageSet.batch

    def counted(self, indexes):
        if len(self) == 1442:
            used.update(indexes.tolist())
            sizes.append(len(indexes))
        return batch(self, indexes)

    monkeypatch.setattr(ImageSet, "batch", counted)
    return used, sizes


def test_joint_sees_all_images(go, images_used):
    """--n_epochs 2: each of the 1,442 images exactly twice."""
    record = go("--model", "joint", "--n_epochs", "2")
    used, _ = images_used
    assert len(used) == 1442
    assert set(used.values()) == {2}
    assert record["provenance"]["steps"] == 2 * 145


def test_iid_with_one_batch_is_one_pass(go, images_used):
    """--iid_batches 1: each image once."""
    go("--model", "iid", "--iid_batches", "1")
    assert set(images_used[0].values()) == {1}
    assert len(images_used[0]) == 1442


def test_iid_plus_plus_uses_each_image_about_twice(go, images_used):
    """Two batches of ten a step, from two passes in different orders: about two uses of each image, in 145 steps."""
    record = go("--model", "iid")
    used, sizes = images_used
    assert record["provenance"]["steps"] == 145
    assert len(sizes) == 2 * 145
    assert used.total() == pytest.approx(2 * 1442, abs=10)
    assert len(used) == 1442
    assert set(used.values()) <= {1, 2, 3}


def test_iid_plus_plus_drops_short_batches_of_both_passes(go, images_used):
    """--drop_last 1: no batch of two at the end of either pass, in the second epoch neither."""
    go("--model", "iid", "--drop_last", "1", "--n_epochs", "2")
    assert set(images_used[1]) == {10}
    assert len(images_used[1]) == 2 * 2 * 144


def test_iid_plus_plus_sums_two_passes(built):
    """The loss is CE of one batch plus CE of the other, each a forward pass of its own; the two batches differ."""
    model, dataset = built("--model", "iid")
    dataset.get_data_loaders()
    model.meta_begin_task(dataset)
    batch = next(iter(dataset.train_loader))
    passes = []
    forward = model.net.forward
    model.net.forward = lambda x, *words: passes.append(x) or forward(x, *words)
    second = []
    following = model.next_of_second
    model.next_of_second = lambda: second.append(following()) or second[0]
    with torch.no_grad():
        first_loss = float(F.cross_entropy(forward(batch[0]), batch[1]))
    weights = model.net.get_params().detach().clone()
    observed = model.meta_observe(*batch, epoch=0)
    model.net.set_params(weights)
    with torch.no_grad():
        second_loss = float(F.cross_entropy(forward(second[0][0]), second[0][1]))
    assert [len(x) for x in passes] == [10, 10]
    assert not torch.equal(passes[0], passes[1])
    assert float(observed["loss"]) == pytest.approx(first_loss + second_loss, abs=1e-5)
