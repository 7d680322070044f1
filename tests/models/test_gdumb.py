"""GDumb: the greedy memory by hand and by property, the schedule against torch's, CutMix, and training from scratch."""

from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.testing import assert_close

from mammoth.runner import build, train_task
from models import gdumb
from models.memories.balanced_buffer import BalancedBuffer, greedy_slot_


def test_greedy_memory_by_hand():
    """Four slots. Class 7 takes all; class 3 takes two of them, and then has its share; class 7 is at its share too."""
    slots_of, generator = {}, torch.Generator().manual_seed(0)
    assert [greedy_slot_(slots_of, 7, 4, generator) for _ in range(5)] == [0, 1, 2, 3, None]
    taken = [greedy_slot_(slots_of, 3, 4, generator) for _ in range(3)]
    assert taken[2] is None
    assert sorted(slots_of[3]) == sorted(taken[:2])
    assert sorted(slots_of[7] + slots_of[3]) == [0, 1, 2, 3]
    assert greedy_slot_(slots_of, 7, 4, generator) is None


def test_a_third_class_takes_from_the_largest():
    """Six slots, 3 + 3, then a new class: its share is two, one from each (the lower label first)."""
    slots_of, generator = {1: [0, 1, 2], 2: [3, 4, 5]}, torch.Generator().manual_seed(0)
    first, second = (greedy_slot_(slots_of, 9, 6, generator) for _ in range(2))
    assert first in (0, 1, 2)
    assert second in (3, 4, 5)
    assert greedy_slot_(slots_of, 9, 6, generator) is None


streams = st.lists(st.integers(0, 5), min_size=1, max_size=60)


@given(streams, st.integers(1, 20))
def test_memory_has_no_gaps(labels, size):
    """Slots are filled from the first on, none twice, and each holds an image of the class that it is listed under."""
    buffer, column = BalancedBuffer(size), torch.tensor(labels)
    for part in column.split(7):
        buffer.offer(part[:, None].float(), part)
    listed = {slot: label for label, slots in buffer.slots_of.items() for slot in slots}
    assert sorted(listed) == list(range(len(buffer)))
    assert len(buffer) <= size
    assert buffer.labels[: len(buffer)].tolist() == [listed[slot] for slot in range(len(buffer))]
    assert torch.equal(buffer.examples[: len(buffer), 0].long(), buffer.labels[: len(buffer)])


@given(streams, st.integers(1, 20), st.randoms(use_true_random=False))
def test_memory_becomes_balanced(labels, size, order):
    """Once each class has brought enough, the memory is full, and no two classes differ by more than one image."""
    enough = sorted(set(labels)) * size
    order.shuffle(enough)
    column, buffer = torch.tensor(labels + enough), BalancedBuffer(size)
    buffer.offer(column[:, None].float(), column)
    kept = [len(slots) for slots in buffer.slots_of.values()]
    assert sum(kept) == size
    assert max(kept) - min(kept) <= 1


def test_each_image_is_counted():
    """What the stream brought is counted, kept or not."""
    buffer = BalancedBuffer(2)
    buffer.offer(torch.zeros(5, 1), torch.zeros(5, dtype=torch.int64))
    assert (len(buffer), buffer.num_seen_examples) == (2, 5)


def test_memory_goes_on_in_a_copy():
    """State carries the classes met, those without a row included; the next draws are the same."""
    labels = torch.tensor([0, 1, 2, 3, 3, 2, 4, 1])
    whole, copy = BalancedBuffer(3), BalancedBuffer(3)
    whole.offer(labels[:, None].float(), labels)
    copy.load_state_dict(whole.state_dict())
    assert copy.slots_of == whole.slots_of
    assert set(copy.slots_of) == {0, 1, 2, 3, 4}
    copy.empty()
    assert len(copy) == 0


@pytest.mark.parametrize("epochs", [256])
def test_schedule_is_a_warm_epoch_and_then_torchs_restarts(epochs):
    """A tenth of the rate, then SGDR with T_0 = 1 and T_mult = 2, whose cycles end at epochs 1, 3, 7, ..., 255."""
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.05)
    schedule = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=1, T_mult=2, eta_min=0.0005)
    optimizer.step()
    assert gdumb.learning_rate(0, 0.05, 0.0005) == pytest.approx(0.005)
    for epoch in range(1, epochs):
        assert gdumb.learning_rate(epoch, 0.05, 0.0005) == pytest.approx(optimizer.param_groups[0]["lr"], rel=1e-6)
        schedule.step()


@pytest.mark.parametrize("alpha", [0.2, 1.0])
def test_cutmix_pastes_a_box_of_the_other_image(alpha):
    """Every pixel is the image's own or the other's; the share is counted, and the same for all channels."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(6)
    images = labels.float()[:, None, None, None].expand(6, 3, 8, 5).clone()
    shares = []
    for _ in range(20):
        mixed = gdumb.cutmix(images, labels, alpha, generator)
        own = mixed.images == images
        assert (own | (mixed.images == mixed.other_labels[:, None, None, None])).all()
        moved = mixed.other_labels != labels
        if moved.any():
            assert_close(own[moved].float().mean((1, 2, 3)), torch.full((int(moved.sum()),), mixed.share))
        shares.append(mixed.share)
    assert min(shares) < 0.5 < max(shares)
    assert torch.equal(images[:, 0, 0, 0], labels.float())


def after(resolve, tasks, *flags):
    """Return GDumb after some tasks of the digits."""
    parts = build(resolve("--model", "gdumb", "--fitting_epochs", "2", *flags))
    for _ in range(tasks):
        parts.dataset.get_data_loaders()
        train_task(parts)
    return parts.model


def test_memory_holds_each_class_alike(resolve):
    """Two tasks, 26 images: 6 or 7 of each class."""
    model = after(resolve, 2, "--buffer_size", "26")
    assert sorted(Counter(model.buffer.labels[: len(model.buffer)].tolist()).values()) == [6, 6, 7, 7]


def test_nothing_is_trained_on_the_stream(resolve):
    """The weights stay until the task ends; the loss is 0."""
    parts = build(resolve("--model", "gdumb"))
    parts.dataset.get_data_loaders()
    parts.model.meta_begin_task(parts.dataset)
    before = parts.model.net.get_params().detach().clone()
    observed = parts.model.observe(*next(iter(parts.dataset.train_loader)), epoch=0)
    assert torch.equal(parts.model.net.get_params(), before)
    assert observed["loss"] == 0


def test_later_passes_offer_nothing(resolve):
    """With more epochs the memory is the same."""
    once, thrice = after(resolve, 1, "--buffer_size", "30"), after(resolve, 1, "--buffer_size", "30", "--n_epochs", "3")
    assert torch.equal(once.buffer.examples, thrice.buffer.examples)
    assert once.buffer.num_seen_examples == thrice.buffer.num_seen_examples


def test_training_starts_from_scratch_each_time(resolve, monkeypatch):
    """Before the first epoch of each fit, the weights are those that the run began with."""
    starts = []
    original = gdumb.Gdumb.fit_epoch

    def noted(model):
        starts.append(model.net.get_params().detach().clone())
        return original(model)

    monkeypatch.setattr(gdumb.Gdumb, "fit_epoch", noted)
    fresh = build(resolve("--model", "gdumb")).model.net.get_params().detach()
    after(resolve, 2)
    assert len(starts) == 4
    assert torch.equal(starts[0], fresh)
    assert torch.equal(starts[2], fresh)
    assert not torch.equal(starts[1], fresh)


def test_recipe_of_the_authors_is_the_default(resolve):
    """Rate, batch, momentum, decay, number of passes over memory and stream."""
    args = resolve("--model", "gdumb")
    recipe = (args.lr, args.lr_min, args.minibatch_size, args.optim_mom, args.optim_wd, args.fitting_epochs, args.n_epochs)
    assert recipe == (0.05, 0.0005, 16, 0.9, 1e-6, 256, 1)


def test_cutmix_changes_the_fit(resolve):
    """With CutMix the weights differ; without, its generator is not drawn from."""
    assert not torch.equal(after(resolve, 1).net.get_params(), after(resolve, 1, "--cutmix_alpha", "1").net.get_params())


def test_it_learns_and_every_stage_is_evaluated(go):
    """16 passes over the memory of the digits: 93.8 at the end for seed 0. Every stage is near that, for each starts afresh."""
    record = go("--model", "gdumb", "--seed", "0", "--fitting_epochs", "16")
    assert all(sum(row) / len(row) > 80 for row in record["class_il"])
    assert record["diagnostics"][-1]["fitting_loss"] < 1
