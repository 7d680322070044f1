"""Images as one tensor, batches as indices into it."""

import copy

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from datasets.utils.image_set import BatchLoader, ImageSet, select


def images(count=10, height=4, width=3, channels=2, transform=None):
    """Return images of random pixels, labelled 0, 1, 2, ..."""
    generator = torch.Generator().manual_seed(0)
    data = torch.randint(256, (count, height, width, channels), dtype=torch.uint8, generator=generator)
    return ImageSet(data, torch.arange(count), transform)


def labels(loader):
    """Return the labels of one pass, batch by batch."""
    return [batch[1].tolist() for batch in loader]


def shuffled(dataset, batch_size, seed=0, **options):
    """Return a loader with a generator of its own."""
    return BatchLoader(dataset, batch_size, torch.Generator().manual_seed(seed), **options)


# -- images ------------------------------------------------------------------------------------------------------------


def test_images_come_as_floats_channels_first():
    """To_tensor's values, in [0, 1], bit for bit."""
    dataset = images()
    found = dataset.images(torch.tensor([3, 1]))
    assert found.dtype == torch.float32
    assert torch.equal(found, dataset.data[[3, 1]].permute(0, 3, 1, 2).float().div(255))


def test_a_batch_is_transformed_labelled_and_raw():
    """Three parts; the raw one is untouched by the transform."""
    dataset = images(transform=lambda batch: batch * 2 - 1)
    ready, targets, raw = dataset.batch(torch.tensor([5, 2]))
    assert targets.tolist() == [5, 2]
    assert torch.equal(raw, dataset.images(torch.tensor([5, 2])))
    assert torch.equal(ready, raw * 2 - 1)


def test_an_item_is_one_row_without_batch_axis():
    """`dataset[i][2]` is the raw image."""
    dataset = images(transform=lambda batch: batch + 1)
    ready, target, raw = dataset[4]
    assert (tuple(ready.shape), target.item()) == ((2, 4, 3), 4)
    assert torch.equal(raw, dataset.images(torch.tensor([4]))[0])


def test_extra_fields_come_last_in_order():
    """LwF attaches logits, noisy labels attach true labels."""
    dataset = images(6)
    dataset.add_extra_return_field("logits", torch.arange(12.0).view(6, 2))
    dataset.add_extra_return_field("true_labels", torch.arange(6) * 10)
    *_, raw, logits, true = dataset.batch(torch.tensor([2, 0]))
    assert raw.dim() == 4
    assert logits.tolist() == [[4.0, 5.0], [0.0, 1.0]]
    assert true.tolist() == [20, 0]
    assert dataset.extra_return_fields == ("logits", "true_labels")


def test_extra_fields_reach_the_loader():
    """Each row keeps its own value when shuffled."""
    dataset = images(20)
    dataset.add_extra_return_field("number", torch.arange(20) * 3)
    for _, targets, _, number in shuffled(dataset, 6):
        assert torch.equal(number, targets * 3)


def test_extra_fields_do_not_leak_to_other_sets():
    """Each set has its own."""
    images(3).add_extra_return_field("logits", torch.zeros(3))
    assert images(3).extra_return_fields == ()


def test_data_and_targets_may_become_numpy_arrays():
    """iCaRL's replay leaves arrays behind."""
    dataset = images(8)
    expected = [[part.clone() for part in batch] for batch in BatchLoader(dataset, 3)]
    dataset.data, dataset.targets = dataset.data.numpy(), np.asarray(dataset.targets)
    for found, wanted in zip(BatchLoader(dataset, 3), expected, strict=True):
        assert all(torch.equal(one, other) for one, other in zip(found, wanted, strict=True))
    assert dataset[2][1].item() == 2


def test_a_copy_is_independent():
    """`deepcopy`, as BiC makes one."""
    dataset = images(5)
    dataset.add_extra_return_field("logits", torch.zeros(5))
    other = copy.deepcopy(dataset)
    other.targets[0] = 99
    other.data = other.data[:2]
    assert (len(dataset), dataset.targets[0].item(), len(other), other.extra_return_fields) == (5, 0, 2, ("logits",))


def test_select_takes_a_range_of_labels():
    """The end excluded; images stay with their labels; the rest is untouched."""
    dataset = images(10, transform=lambda batch: batch)
    subset = select(dataset, 3, 6)
    assert subset.targets.tolist() == [3, 4, 5]
    assert torch.equal(subset.data, dataset.data[3:6])
    assert subset.transform is dataset.transform
    assert select(dataset, 3, 6, transform=None).transform is None
    assert len(dataset) == 10


# -- the loader --------------------------------------------------------------------------------------------------------


@given(count=st.integers(0, 40), size=st.integers(1, 45), drop=st.booleans(), seed=st.integers(0, 99))
@settings(deadline=None, max_examples=80)
def test_a_pass_shows_every_image_once(count, size, drop, seed):
    """In batches of the size asked for; only a short last one is left out, if so wished; `len` says how many batches."""
    loader = shuffled(images(count), size, seed, drop_last=drop)
    found = labels(loader)
    assert len(found) == len(loader)
    shown = [label for batch in found for label in batch]
    assert len(set(shown)) == len(shown) == (count // size * size if drop else count)
    assert all(len(batch) == size for batch in (found if drop else found[:-1]))


def test_without_a_generator_the_order_is_the_stored_one():
    """For testing."""
    assert labels(BatchLoader(images(5), 2)) == [[0, 1], [2, 3], [4]]


def test_each_pass_has_a_new_order_that_the_generator_repeats():
    """Two loaders from one seed agree pass by pass."""
    one, other = shuffled(images(30), 7, 3), shuffled(images(30), 7, 3)
    first, second = labels(one), labels(one)
    assert first != second
    assert [labels(other), labels(other)] == [first, second]
    assert labels(shuffled(images(30), 7, 4)) != first


def test_the_order_draws_nothing_global():
    """And no global draw changes it."""
    before = torch.get_rng_state()
    first = labels(shuffled(images(30), 7))
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(10)
    assert labels(shuffled(images(30), 7)) == first


def test_the_batch_size_does_not_change_the_order():
    """Cut in fives or in tens, the images come in one order."""
    flat = [[label for batch in labels(shuffled(images(30), size)) for label in batch] for size in (5, 10, 30)]
    assert flat[0] == flat[1] == flat[2]


def test_images_added_between_passes_are_shown():
    """`len` and the order follow the set as it is when asked."""
    dataset = images(4)
    loader = shuffled(dataset, 3)
    assert len(loader) == 2
    labels(loader)
    more = images(5)
    dataset.data = torch.cat([dataset.data, more.data])
    dataset.targets = torch.cat([dataset.targets, more.targets + 4])
    assert len(loader) == 3
    assert sorted(label for batch in labels(loader) for label in batch) == list(range(9))


def test_images_removed_between_passes_are_gone():
    """By a mask, as `fill_buffer` does it."""
    dataset = images(10)
    loader = shuffled(dataset, 4)
    labels(loader)
    mask = dataset.targets >= 6
    dataset.data, dataset.targets = dataset.data[mask], dataset.targets[mask]
    assert len(loader) == 1
    assert sorted(labels(loader)[0]) == [6, 7, 8, 9]


@pytest.mark.parametrize(("drop", "batches"), [(False, [[0, 1, 2], [3, 4, 5], [6]]), (True, [[0, 1, 2], [3, 4, 5]])])
def test_drop_last_leaves_out_a_short_batch(drop, batches):
    """Seven images in threes."""
    assert labels(BatchLoader(images(7), 3, drop_last=drop)) == batches


def test_drop_last_keeps_a_full_last_batch():
    """Six images in threes."""
    assert labels(BatchLoader(images(6), 3, drop_last=True)) == [[0, 1, 2], [3, 4, 5]]
