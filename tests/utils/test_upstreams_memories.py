"""What upstream's methods import: exemplars by class, the ring and the GSS memory, frozen batch norm, CutMix."""

from argparse import Namespace
from types import SimpleNamespace

import pytest
import torch

from datasets.utils.image_set import BatchLoader, ImageSet
from utils.augmentations import cutmix_data
from utils.batch_norm import bn_track_stats
from utils.buffer import Buffer, fill_buffer, icarl_replay
from utils.exemplars import herding
from utils.gss_buffer import Buffer as GssBuffer
from utils.ring_buffer import RingBuffer


def benchmark(labels, task, setting="class-il", size=8, classes=4):
    """Return a benchmark at a task, whose images carry their label in every pixel."""
    targets = torch.tensor(labels)
    data = targets[:, None, None, None].expand(-1, 2, 2, 1).to(torch.uint8).clone()
    offsets = (0, classes) if setting == "domain-il" else (2 * task, 2 * task + 2)
    return SimpleNamespace(
        train_loader=BatchLoader(ImageSet(data, targets), 4),
        get_offsets=lambda task: offsets,
        SETTING=setting,
        args=Namespace(buffer_size=size),
        get_normalization_transform=lambda: None,
        get_batch_size=lambda: 4,
    )


def test_herding_picks_what_brings_the_mean_closest():
    """By hand: of 0, 1, 5 (mean 2), first 1, then 5 (mean 3) against 0 (mean 0.5): 5; then the rest; never one twice."""
    assert herding(torch.tensor([[0.0], [1.0], [5.0]]), 5).tolist() == [1, 2, 0]


def test_the_memory_is_shared_equally_by_the_classes_seen():
    """Four a class after the first task, two after the second; labels and task labels fit."""
    memory = Buffer(8)
    fill_buffer(memory, benchmark([0, 1] * 6, 0), 0, required_attributes=["examples", "labels", "task_labels"])
    assert memory.labels[: len(memory)].bincount().tolist() == [4, 4]
    fill_buffer(memory, benchmark([2, 3] * 6, 1), 1, required_attributes=["examples", "labels", "task_labels"])
    assert memory.labels.bincount().tolist() == [2, 2, 2, 2]
    assert torch.equal(memory.task_labels, memory.labels // 2)
    assert torch.equal((memory.examples[:, 0, 0, 0] * 255).round().long(), memory.labels)


def test_a_domain_il_memory_is_shared_by_tasks_too():
    """Upstream's defect D13: the second task of a domain-IL sequence must not crash, and both tasks keep the same share."""
    memory = Buffer(8)
    for task in range(2):
        here = benchmark([0, 1] * 6, task, "domain-il", classes=2)
        fill_buffer(memory, here, task, required_attributes=["examples", "labels", "task_labels"])
    assert memory.task_labels[: len(memory)].bincount().tolist() == [4, 4]


def test_a_memory_below_one_image_a_class_is_refused():
    """With what to give."""
    with pytest.raises(ValueError, match="give 2 or more"):
        fill_buffer(Buffer(1), benchmark([0, 1], 0, size=1), 0)


def test_replayed_images_equal_the_stored_ones():
    """Upstream's defect D18: the memory's images come back bit for bit among the task's, which the loop sees at once."""
    memory = Buffer(4)
    fill_buffer(memory, benchmark([0, 1] * 3, 0, size=4), 0)
    here = benchmark([2, 3] * 3, 1)
    icarl_replay(SimpleNamespace(current_task=1, buffer=memory), here)
    images = here.train_loader.dataset
    assert len(here.train_loader) == 3
    assert images.targets.bincount().tolist() == [2, 2, 3, 3]
    assert torch.equal(images.data[:, 0, 0, 0].long(), images.targets)
    fill_buffer(memory, here, 1)
    assert images.targets.min() == 2


def test_replayed_images_are_not_stored_again_where_tasks_share_their_classes():
    """Domain-IL: what the memory lent to the task's images is not taken for the task's own."""
    memory = Buffer(8)
    wanted = ["examples", "labels", "task_labels"]
    fill_buffer(memory, benchmark([0, 1] * 6, 0, "domain-il", classes=2), 0, required_attributes=wanted)
    here = benchmark([0, 1] * 6, 1, "domain-il", classes=2)
    here.train_loader.dataset.data += 100
    icarl_replay(SimpleNamespace(current_task=1, buffer=memory), here)
    assert len(here.train_loader.dataset) == 20
    fill_buffer(memory, here, 1, required_attributes=wanted)
    assert len(here.train_loader.dataset) == 12
    pixels = (memory.examples[: len(memory), 0, 0, 0] * 255).round()
    assert torch.equal(pixels >= 100, memory.task_labels[: len(memory)] == 1)


def test_a_validation_part_is_set_aside():
    """No image is in both parts, none is lost, as many of the task as of the memory."""
    memory = Buffer(4)
    fill_buffer(memory, benchmark([0, 1] * 3, 0, size=4), 0)
    here = benchmark([2, 3] * 3, 1)
    model = SimpleNamespace(current_task=1, buffer=memory, args=Namespace(batch_size=4))
    icarl_replay(model, here, val_set_split=0.5)
    held = model.val_dataset.targets
    assert (held < 2).sum() == (held >= 2).sum()
    assert len(held) + len(here.train_loader.dataset) == 10


def test_a_ring_overwrites_its_oldest_and_leaves_other_tasks_alone():
    """Two rows a task: of three rows of task 0 the last two stay; task 1 does not touch them; state survives."""
    ring = RingBuffer(4, n_tasks=2)
    ring.add_data(torch.tensor([[1.0], [2.0], [3.0]]), labels=torch.tensor([1, 2, 3]))
    ring.task_number, ring.num_seen_examples = 1, 0
    ring.add_data(torch.tensor([[9.0]]), labels=torch.tensor([9]))
    assert sorted(ring.get_all_data()[1].tolist()) == [2, 3, 9]
    assert sorted(ring.get_data(10)[1].tolist()) == [2, 3, 9]
    again = RingBuffer(4, n_tasks=2)
    again.load_state_dict(ring.state_dict())
    assert sorted(again.get_all_data()[1].tolist()) == [2, 3, 9]


def test_gss_fills_first_and_then_keeps_only_what_points_elsewhere():
    """Gradients equal to the memory's (score 2) never replace; opposite ones (score 0) always win."""
    direction = {1: 1.0, 2: -1.0}
    model = SimpleNamespace(get_grads=lambda images, labels: torch.tensor([[direction[int(labels[0])]]]))
    memory = GssBuffer(2, "cpu", 2, model)
    memory.add_data(torch.zeros(2, 1), labels=torch.tensor([1, 1]))
    memory.add_data(torch.zeros(2, 1), labels=torch.tensor([1, 1]))
    assert memory.num_seen_examples == 2 + 2
    memory.add_data(torch.zeros(1, 1), labels=torch.tensor([2]))
    assert sorted(memory.get_all_data()[1].tolist()) == [1, 2]


def test_frozen_batch_norm_learns_no_statistics_and_thaws():
    """Within the block the running mean stands still, afterwards it moves."""
    layer = torch.nn.BatchNorm1d(1)
    with bn_track_stats(layer, False):
        layer(torch.tensor([[1.0], [3.0]]))
    assert layer.running_mean.item() == 0
    layer(torch.tensor([[1.0], [3.0]]))
    assert layer.running_mean.item() > 0


def test_cutmix_says_how_much_of_an_image_is_its_own():
    """The share of pixels that kept the image's own value is the share returned."""
    images = torch.arange(4.0)[:, None, None, None].expand(4, 1, 16, 16)
    mixed, own, other, share = cutmix_data(images, torch.arange(4), force=True)
    for image, label, pasted in zip(mixed, own, other, strict=True):
        if label != pasted:
            assert (image == label).float().mean() == pytest.approx(share)
    assert cutmix_data(images, own, alpha=0)[3] == 1.0


def test_a_first_batch_larger_than_a_gss_memory():
    """There is nothing to compare the rows beyond its size with, so they are left out."""
    memory = GssBuffer(3, "cpu", 10, SimpleNamespace(get_grads=lambda images, labels: images[:1]))
    memory.add_data(torch.rand(8, 4), torch.tensor([0, 1] * 4))
    assert (len(memory), memory.num_seen_examples) == (3, 8)
