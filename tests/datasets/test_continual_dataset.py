"""A benchmark as a sequence of tasks: classes, orders, splits and loaders, on the bundled digits and on images made in code."""

from argparse import Namespace
from itertools import accumulate

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from datasets import (
    ContinualDataset,
    config_path,
    get_config_names,
    get_dataset,
    get_dataset_class,
    get_dataset_names,
    read_config,
    register_dataset,
)
from datasets.utils.continual_dataset import Split, data_folder, task_sizes
from utils import randomness


def arguments(**flags):
    """Return the arguments of a run on the digits."""
    return Namespace(**{"dataset": "seq-digits", "dataset_config": None, "batch_size": 16, "device": "cpu", **flags})


def digits(**flags):
    """Return the digits benchmark."""
    return get_dataset(arguments(**flags))


class Squares(ContinualDataset):
    """Seven classes of plain squares, class c of pixel value 10 c; six images a class for training, two for testing."""

    NAME = "squares"
    SETTING = "class-il"
    N_CLASSES_PER_TASK = [1, 4, 2]
    N_TASKS = 3
    N_CLASSES = 7
    SIZE = (3, 3, 1)
    CLASS_NAMES = list("abcdefg")
    loads = 0

    def load(self, train):
        type(self).loads += 1
        labels = torch.arange(self.N_CLASSES).repeat(6 if train else 2)
        return Split((10 * labels).to(torch.uint8).view(-1, 1, 1, 1).expand(-1, 3, 3, 1).contiguous(), labels)


def squares(**flags):
    """Return the squares."""
    return Squares(arguments(**flags))


def variant(**facts):
    """Return a benchmark like the squares with other facts."""
    return type("Variant", (Squares,), facts)(arguments())


def original_class(dataset_images):
    """Return the class that each of the squares was drawn for."""
    return (dataset_images.data[:, 0, 0, 0] // 10).tolist()


def walk(dataset, tasks=None):
    """Go through the tasks; return each one's training and test sets."""
    return [tuple(loader.dataset for loader in dataset.get_data_loaders()) for _ in range(tasks or dataset.N_TASKS)]


# -- the digits --------------------------------------------------------------------------------------------------------


def test_each_task_has_exactly_its_classes():
    """Task t holds classes 2t and 2t + 1, for training and for testing."""
    for task, pair in enumerate(walk(digits())):
        for images in pair:
            assert images.targets.unique().tolist() == [2 * task, 2 * task + 1]


def test_the_tasks_together_are_the_whole_split():
    """1,797 images: nothing lost, nothing twice; a fifth of each class for testing."""
    dataset = digits()
    pairs = walk(dataset)
    train, test = (sum(len(pair[part]) for pair in pairs) for part in (0, 1))
    assert (train, test) == (len(dataset.split(train=True)), len(dataset.split(train=False)))
    assert train + test == 1797
    for label in range(10):
        counts = [int((dataset.split(train=train).targets == label).sum()) for train in (True, False)]
        assert counts[1] == sum(counts) // 5


def test_training_and_test_images_are_disjoint():
    """Together they are scikit-learn's images, each once."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    dataset = digits()
    found = torch.cat([dataset.split(train=train).data for train in (True, False)])
    expected = torch.from_numpy(bunch.images * 255 / 16).round().to(torch.uint8)
    assert sorted(found.flatten(1).tolist()) == sorted(expected.flatten(1).tolist())


def test_labels_stay_with_their_images():
    """Against scikit-learn's, by content."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    pixels = torch.from_numpy(bunch.images * 255 / 16).round().to(torch.uint8).flatten(1)
    known = {tuple(row): label for row, label in zip(pixels.tolist(), bunch.target.tolist(), strict=True)}
    for train in (True, False):
        images = digits().split(train=train)
        assert [known[tuple(row)] for row in images.data.flatten(1).tolist()] == images.targets.tolist()


def test_a_batch_has_the_shape_and_range_it_should():
    """Grey 8 x 8 images in [0, 1], int64 labels, the last one raw."""
    loader, _ = digits().get_data_loaders()
    ready, labels, raw = next(iter(loader))
    assert tuple(ready.shape) == (16, 1, 8, 8)
    assert (labels.dtype, raw.dtype) == (torch.int64, torch.float32)
    assert 0 <= raw.min() < raw.max() <= 1


def test_the_default_config_normalises():
    """Pixels in [-1, 1] with mean and deviation 0.5; the raw images stay in [0, 1]."""
    ready, _, raw = next(iter(digits(dataset_config="default").get_data_loaders()[0]))
    torch.testing.assert_close(ready, raw * 2 - 1)


def test_the_images_are_original():
    """Nothing is recompressed or sampled."""
    assert digits().data_kind() == "original"


# -- orders ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flags", "order", "sizes"),
    [
        ({}, [0, 1, 2, 3, 4, 5, 6], [1, 4, 2]),
        ({"custom_class_order": "6,2,0,1,5,4,3"}, [6, 2, 0, 1, 5, 4, 3], [1, 4, 2]),
        ({"custom_task_order": "2,0,1"}, [5, 6, 0, 1, 2, 3, 4], [2, 1, 4]),
        ({"custom_task_order": "0, 2, 1"}, [0, 5, 6, 1, 2, 3, 4], [1, 2, 4]),
    ],
)
def test_labels_are_renumbered_by_order_of_appearance(flags, order, sizes):
    """Training label i is class order[i], by the images' content; tasks have the sizes that belong to them."""
    dataset = squares(**flags)
    assert dataset.class_order == order
    assert dataset.task_sizes == sizes
    ends = list(accumulate(sizes))
    for (train, test), end, size in zip(walk(dataset), ends, sizes, strict=True):
        for images, copies in ((train, 6), (test, 2)):
            assert original_class(images) == [order[label] for label in images.targets.tolist()]
            assert sorted(images.targets.tolist()) == [label for label in range(end - size, end) for _ in range(copies)]
    assert dataset.get_class_names() == ["abcdefg"[label] for label in order]


def test_an_order_of_tasks_is_an_order_of_domains():
    """A domain-il benchmark of one's own that darkens each domain further: domains come in the order asked, labels stay."""

    class Darker(Squares):
        SETTING, N_CLASSES_PER_TASK = "domain-il", 7

        def task_images(self, images, task):
            return type(images)(images.data // (task + 1), images.targets, images.transform)

    dataset = Darker(arguments(custom_task_order="2,0,1"))
    assert dataset.class_order == list(range(7))
    for (train, test), divisor in zip(walk(dataset), (3, 1, 2), strict=True):
        for images in (train, test):
            assert images.data[:, 0, 0, 0].tolist() == [10 * label // divisor for label in images.targets.tolist()]


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ({"batch_size": 5}, True),  # tasks of 6, 24 and 12 images
        ({"batch_size": 5, "steps": 1}, False),
        ({"batch_size": 5, "steps": 2}, True),
        ({"batch_size": 5, "drop_last": 1}, False),
        ({"batch_size": 5, "joint": 1}, False),
        ({"batch_size": 1, "drop_last": 1}, True),
        ({"batch_size": 6}, False),
        ({"batch_size": 41, "joint": 1}, True),
        ({"batch_size": 6, "label_perc": 0.5}, True),
    ],
)
def test_whether_a_batch_may_be_one_image(flags, expected):
    """By the sizes of the tasks, the batch, the steps taken and the labels given."""
    flags = dict(flags)
    steps = {"steps": flags.pop("steps")} if "steps" in flags else {}
    assert squares(**flags).has_batch_of_one(**steps) is expected


@pytest.mark.parametrize("seed", range(4))
def test_a_permuted_order_is_a_permutation_of_the_seed(seed):
    """The same for one seed, whatever was drawn before; content and label go together."""
    randomness.start(seed)
    order = squares(permute_classes=1).class_order
    assert sorted(order) == list(range(7))
    randomness.start(seed)
    torch.rand(5)
    randomness.generator("replay").manual_seed(1)
    dataset = squares(permute_classes=1)
    assert dataset.class_order == order
    images = dataset.split(train=True)
    assert original_class(images) == [order[label] for label in images.targets.tolist()]


def test_permuted_orders_of_different_seeds_differ():
    """Ten seeds, at least nine orders."""
    orders = set()
    for seed in range(10):
        randomness.start(seed)
        orders.add(tuple(digits(permute_classes=1).class_order))
    assert len(orders) >= 9


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"custom_class_order": "0,1,2"}, "--custom_class_order 0,1,2: expected each of 0 to 6 once"),
        ({"custom_class_order": "0,1,2,3,4,5,5"}, "--custom_class_order"),
        ({"custom_class_order": "1,2,3,4,5,6,7"}, "--custom_class_order"),
        ({"custom_class_order": "a,b"}, "--custom_class_order"),
        ({"custom_task_order": "0,1"}, "--custom_task_order 0,1: expected each of 0 to 2 once"),
        ({"custom_task_order": "0,1,1"}, "--custom_task_order"),
        ({"custom_task_order": "0,1,2", "permute_classes": 1}, "not several"),
        ({"custom_task_order": "0,1,2", "custom_class_order": "0,1,2,3,4,5,6"}, "not several"),
    ],
)
def test_an_order_that_is_none_is_refused(flags, message):
    """The message names the flag and what is expected."""
    with pytest.raises(ValueError, match=message):
        squares(**flags)


@given(order=st.permutations(range(7)))
@settings(deadline=None, max_examples=30)
def test_any_class_order_keeps_every_image(order):
    """Whatever the order, each class's images are there once, under their new label."""
    images = squares(custom_class_order=",".join(map(str, order))).split(train=True)
    assert sorted(original_class(images)) == sorted(list(range(7)) * 6)
    assert original_class(images) == [order[label] for label in images.targets.tolist()]


# -- tasks -------------------------------------------------------------------------------------------------------------


def test_offsets_of_uneven_tasks():
    """1, 4 and 2 classes; one beyond the last task is empty, as X-DER asks for it."""
    dataset = squares()
    assert [dataset.get_offsets(task) for task in range(4)] == [(0, 1), (1, 5), (5, 7), (7, 7)]


def test_offsets_follow_the_current_task():
    """Before the first, that of the first."""
    dataset = squares()
    found = [dataset.get_offsets()]
    for _ in range(3):
        dataset.get_data_loaders()
        found.append(dataset.get_offsets())
    assert found == [(0, 1), (0, 1), (1, 5), (5, 7)]
    assert dataset.current_task == dataset.c_task == 2


def test_domain_il_has_all_classes_in_each_task():
    """Offsets never move."""
    dataset = variant(SETTING="domain-il", N_CLASSES_PER_TASK=7, N_TASKS=1)
    assert [dataset.get_offsets(task) for task in range(3)] == [(0, 7)] * 3


@pytest.mark.parametrize(
    ("per_task", "n_tasks", "n_classes", "message"),
    [
        (3, 3, 7, "3 tasks of 3 classes do not fit in 7 classes"),
        ([1, 2, 5], 3, 7, "do not fit in 7"),
        ([1, 2], 3, 7, "lists 2 tasks, N_TASKS is 3"),
        ([1, 6, 0], 3, 7, "do not fit"),
        ([4, 4, -1], 3, 7, "do not fit"),
        (0, 3, 7, "do not fit"),
    ],
)
def test_task_sizes_that_do_not_fit_are_refused(per_task, n_tasks, n_classes, message):
    """The message names the benchmark."""
    with pytest.raises(ValueError, match=f"squares: .*{message}"):
        task_sizes(per_task, n_tasks, n_classes, "squares")


@pytest.mark.parametrize(("per_task", "n_tasks"), [(2, 3), ([1, 2, 3], 3)])
def test_task_sizes_that_leave_classes_over_are_refused(per_task, n_tasks):
    """`ContinualDataset`: ValueError when the tasks do not add up to the classes."""
    with pytest.raises(ValueError, match="7 classes"):
        variant(N_CLASSES_PER_TASK=per_task, N_TASKS=n_tasks)


@pytest.mark.parametrize(("per_task", "sizes"), [(2, [2, 2, 2]), ([1, 4, 1], [1, 4, 1]), ((3, 2, 1), [3, 2, 1])])
def test_task_sizes_are_a_list(per_task, sizes):
    """From one number or one a task."""
    assert task_sizes(per_task, 3, 6, "x") == sizes


def test_a_joint_run_trains_on_everything_and_tests_on_each_task():
    """One training task; the test loaders are the sequence's."""
    dataset = squares(joint=1)
    train, _ = dataset.get_data_loaders()
    assert dataset.n_training_tasks == 1
    assert dataset.training_range() == (0, 7)
    assert len(train.dataset) == 42
    assert [loader.dataset.targets.unique().tolist() for loader in dataset.test_loaders] == [[0], [1, 2, 3, 4], [5, 6]]


class Hole(Squares):
    """The squares without one class's images in one split."""

    missing = (True, 0)

    def load(self, train):
        images, labels = super().load(train)
        kept = labels != self.missing[1] if train == self.missing[0] else labels >= 0
        return Split(images[kept], labels[kept])


@pytest.mark.parametrize(
    ("missing", "message"),
    [((True, 0), "task 1 has 0 training images and needs at least 1"), ((False, 0), "task 1 has no test images")],
)
def test_a_task_without_images_is_refused(missing, message):
    """Rather than an epoch of no steps, or an accuracy of nothing; the message names benchmark and task."""
    dataset = type("Other", (Hole,), {"missing": missing})(arguments())
    with pytest.raises(ValueError, match=f"squares: {message}"):
        dataset.check_tasks()


def test_a_task_with_images_of_some_classes_passes():
    """Class 2 of task 2 is absent, its others are there; and so does a joint run."""
    type("Other", (Hole,), {"missing": (True, 2)})(arguments()).check_tasks()
    squares(joint=1).check_tasks()


def test_a_task_smaller_than_a_batch_is_refused_if_short_batches_are_dropped():
    """Six images in the first task: a batch of 6 is full, one of 7 is not; without --drop_last both are fine."""
    squares(batch_size=6, drop_last=1).check_tasks()
    squares(batch_size=7).check_tasks()
    with pytest.raises(ValueError, match=r"task 1 has 6 training images and needs at least 7.*--drop_last"):
        squares(batch_size=7, drop_last=1).check_tasks()


@pytest.mark.parametrize(("labels", "span"), [([0, 7], "0 to 7"), ([-1, 3], "-1 to 3")])
def test_labels_out_of_range_are_refused(labels, span):
    """The message names the span found and the one expected."""

    class Odd(Squares):
        def load(self, train):
            return Split(torch.zeros(2, 3, 3, 1, dtype=torch.uint8), torch.tensor(labels))

    with pytest.raises(ValueError, match=f"squares: labels from {span}, expected 0 to 6"):
        Odd(arguments()).split(train=True)


def test_images_that_are_not_8_bit_are_refused():
    """Floats in [0, 1] would all become 0 and 1 of 255: the message names what came and what is expected."""

    class Odd(Squares):
        def load(self, train):
            return Split(torch.rand(7, 3, 3, 1), torch.arange(7))

    with pytest.raises(ValueError, match=r"squares: load\(\) returned torch.float32 images, expected torch.uint8"):
        Odd(arguments()).split(train=True)


@pytest.mark.parametrize(("images", "labels"), [(3, 2), (0, 0)])
def test_splits_that_do_not_match_are_refused(images, labels):
    """More images than labels, or nothing at all."""

    class Odd(Squares):
        def load(self, train):
            return Split(torch.zeros(images, 3, 3, 1, dtype=torch.uint8), torch.zeros(labels, dtype=torch.int64))

    with pytest.raises(ValueError, match=f"squares: {images} images and {labels} labels"):
        Odd(arguments()).split(train=True)


def test_a_benchmark_without_load_says_so():
    """Its class is named."""
    kind = type(
        "Empty", (ContinualDataset,), {"NAME": "e", "N_CLASSES_PER_TASK": 1, "N_TASKS": 1, "N_CLASSES": 1, "SETTING": "class-il"}
    )
    with pytest.raises(NotImplementedError, match="Empty defines no load"):
        kind(arguments()).split(train=True)


# -- instances and loaders ---------------------------------------------------------------------------------------------


def test_a_new_instance_reads_no_images_and_draws_nothing(monkeypatch):
    """HAL and LwF-MC build extra ones in mid-training."""
    monkeypatch.setattr(Squares, "loads", 0)
    named = {name: randomness.generator(name).get_state() for name in ("reservoir", "replay", "class_order", "augmentation")}
    before = torch.get_rng_state()
    squares(permute_classes=1, validation=0.2)
    digits(permute_classes=1)
    assert Squares.loads == 0
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(randomness.generator(name).get_state(), state) for name, state in named.items())


def test_two_instances_agree():
    """Order of classes, images of each task, order of each pass; even when the second is made late."""
    first = digits(permute_classes=1)
    batches = [[batch[1].tolist() for batch in first.get_data_loaders()[0]] for _ in range(5)]
    second = digits(permute_classes=1)
    assert second.class_order == first.class_order
    assert [[batch[1].tolist() for batch in second.get_data_loaders()[0]] for _ in range(5)] == batches


def test_an_extra_instance_does_not_change_the_first():
    """Its loaders are its own."""

    def passes(extra):
        dataset = digits()
        found = []
        for _ in range(2):
            loader, _ = dataset.get_data_loaders()
            if extra:
                digits().get_data_loaders()
            found += [batch[0] for batch in loader]
        return found

    assert all(torch.equal(one, other) for one, other in zip(passes(False), passes(True), strict=True))


def test_images_are_read_once(monkeypatch):
    """One read for each split, however many tasks."""
    monkeypatch.setattr(Squares, "loads", 0)
    walk(squares())
    assert Squares.loads == 2


def order_of(task, seed, disturb=lambda: None, passes=1):
    """Return the images' content, pass by pass, in the order in which task `task` shows them."""
    randomness.start(seed)
    dataset = digits()
    for _ in range(task + 1):
        disturb()
        loader, _ = dataset.get_data_loaders()
        disturb()
    return [[row for batch in loader for row in batch[2].flatten(1).sum(1).tolist()] for _ in range(passes)]


def test_a_loaders_order_depends_on_the_seed_and_the_task_alone():
    """Not on global draws, replay, the reservoir, augmentation, or on how often earlier tasks were gone through."""

    def disturb():
        torch.rand(7)
        for name in ("replay", "reservoir", "augmentation", "class_order"):
            torch.rand(3, generator=randomness.generator(name))

    expected = order_of(1, 3, passes=2)
    assert order_of(1, 3, disturb, passes=2) == expected
    randomness.start(3)
    dataset = digits()
    for _ in range(3):
        dataset.get_data_loaders()[0].order()
    randomness.start(3)
    other = digits()
    first, _ = other.get_data_loaders()
    for _ in range(5):
        first.order()
    again, _ = other.get_data_loaders()
    assert [row for batch in again for row in batch[2].flatten(1).sum(1).tolist()] == expected[0]


def test_a_loaders_order_changes_with_seed_pass_and_task():
    """Three different orders."""
    one, two = order_of(1, 3, passes=2)
    assert sorted(one) == sorted(two)
    assert one != two
    assert order_of(1, 4)[0] != one
    randomness.start(3)
    dataset = digits()
    orders = [dataset.get_data_loaders()[0].order().tolist()[:20] for _ in range(2)]
    assert orders[0] != orders[1]


def test_changed_data_is_seen_by_the_next_pass():
    """iCaRL appends its exemplars to `train_loader.dataset`; the whole split and the next task are left alone."""
    dataset = squares(batch_size=5)
    loader, _ = dataset.get_data_loaders()
    assert len(loader) == 2
    images = dataset.train_loader.dataset
    images.data = torch.cat([images.data, torch.full((9, 3, 3, 1), 200, dtype=torch.uint8)])
    images.targets = torch.cat([images.targets, torch.full((9,), 6)])
    assert len(loader) == 3
    found = torch.cat([batch[1] for batch in loader])
    assert sorted(found.tolist()) == [0] * 6 + [6] * 9
    assert len(dataset.split(train=True)) == 42
    assert len(dataset.get_data_loaders()[0].dataset) == 24


def test_drop_last_reaches_the_training_loader_alone():
    """Six images in fours: one batch for training; testing shows all."""
    train, test = squares(batch_size=4, drop_last=1).get_data_loaders()
    assert [len(batch[1]) for batch in train] == [4]
    assert sum(len(batch[1]) for batch in test) == 2


def test_test_loaders_are_kept_in_order():
    """One for each task so far, always in the same order of images."""
    dataset = digits()
    for task in range(3):
        _, newest = dataset.get_data_loaders()
        assert dataset.test_loaders[-1] is newest
        assert len(dataset.test_loaders) == task + 1
    passes = [torch.cat([batch[0] for batch in newest]) for _ in range(2)]
    assert torch.equal(*passes)


# -- validation --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("share", "held"), [(0.25, 0.25), (25.0, 0.25), (10.0, 0.1)])
def test_validation_holds_training_images_out(share, held):
    """A fraction below 1, else percent; the parts are disjoint and together the training split; no test image is looked at."""
    whole = digits().split(train=True)
    dataset = digits(validation=share)
    train, test = dataset.split(train=True), dataset.split(train=False)
    assert len(test) == round(held * len(whole))

    def rows(*parts):
        return sorted(
            (*row, label) for part in parts for row, label in zip(part.data.flatten(1).tolist(), part.targets.tolist(), strict=True)
        )

    assert rows(train, test) == rows(whole)


def test_validation_images_are_the_same_at_each_start():
    """They depend on the seed alone."""
    held = []
    for seed in (1, 1, 2):
        randomness.start(seed)
        torch.rand(seed)
        dataset = digits(validation=0.1)
        dataset.split(train=True)
        held.append(dataset.split(train=False).data)
    assert torch.equal(held[0], held[1])
    assert not torch.equal(held[0], held[2])


def test_validation_does_not_depend_on_which_split_is_asked_for_first():
    """Asked for testing images first, the held-out ones come."""
    expected = digits(validation=0.1)
    expected.split(train=True)
    assert torch.equal(digits(validation=0.1).split(train=False).data, expected.split(train=False).data)


def test_validation_images_take_the_test_transform():
    """No augmentation of what is evaluated."""
    dataset = variant(TRANSFORM=["RandomHorizontalFlip", "ToTensor"])
    dataset.args.validation = 0.2
    dataset.split(train=True)
    assert dataset.split(train=False).transform.deterministic
    assert not dataset.split(train=True).transform.deterministic


def test_validation_keeps_every_task():
    """Each task has held-out images of its own classes alone."""
    for task, (_, test) in enumerate(walk(digits(validation=0.2))):
        assert test.targets.unique().tolist() == [2 * task, 2 * task + 1]


# -- fingerprint, transforms, defaults ---------------------------------------------------------------------------------


def test_the_fingerprint_tells_content_and_order():
    """The same for two instances; another for a changed pixel, a changed label, and another class order."""
    dataset = squares()
    fingerprint = dataset.fingerprint()
    assert squares().fingerprint() == fingerprint
    assert squares(custom_task_order="1,0,2").fingerprint() != fingerprint
    dataset.split(train=False).data[3, 1, 1, 0] += 1
    changed = dataset.fingerprint()
    dataset.split(train=True).targets[0] = 5
    assert len({fingerprint, changed, dataset.fingerprint()}) == 3


def test_replay_needs_no_transform_where_nothing_is_done():
    """None without augmentation and normalisation; else one that draws from replay's own stream."""
    assert variant().get_transform() is None
    flipping = variant(TRANSFORM=["RandomHorizontalFlip", "ToTensor"]).get_transform()
    assert flipping.stream == "replay_augmentation"
    normalising = variant(TRANSFORM=["ToTensor", {"Normalize": {"mean": [0.5], "std": [0.25]}}]).get_transform()
    torch.testing.assert_close(normalising(torch.ones(1, 1, 3, 3)), torch.full((1, 1, 3, 3), 2.0))


def test_the_normalisation_is_that_of_the_test_images():
    """Alone, without augmentation."""
    normalize = {"Normalize": {"mean": [0.5], "std": [0.25]}}
    dataset = variant(TRANSFORM=["RandomHorizontalFlip", "ToTensor"], TEST_TRANSFORM=["ToTensor", normalize])
    torch.testing.assert_close(dataset.get_normalization_transform()(torch.ones(1, 1, 3, 3)), torch.full((1, 1, 3, 3), 2.0))


def test_numbers_come_from_the_arguments():
    """Batch, minibatch (the batch's where none is given), epochs and steps."""
    dataset = squares(n_epochs=3)
    assert (dataset.get_batch_size(), dataset.get_minibatch_size(), dataset.get_epochs(), dataset.get_iters()) == (16, 16, 3, None)
    dataset = squares(minibatch_size=4, n_iters=9)
    assert (dataset.get_minibatch_size(), dataset.get_iters()) == (4, 9)


def test_class_names_default_to_numbers():
    """In the order of training labels."""
    dataset = variant(CLASS_NAMES=[])
    assert dataset.get_class_names() == ["0", "1", "2", "3", "4", "5", "6"]


# -- by name -----------------------------------------------------------------------------------------------------------


def test_every_benchmark_loads():
    """None of the files is broken."""
    names = get_dataset_names()
    assert {"seq-digits", "seq-cifar10", "seq-cifar100"} <= set(names)
    assert [name for name, entry in names.items() if isinstance(entry, Exception)] == []


@pytest.mark.parametrize("name", sorted(get_dataset_names()))
def test_every_config_fits_its_benchmark(name):
    """Every YAML file gives a benchmark whose tasks add up."""
    for config in [None, *get_config_names(name)]:
        dataset = get_dataset(arguments(dataset=name, dataset_config=config))
        times = dataset.N_TASKS if dataset.SETTING == "domain-il" else 1  # there each task has all classes
        assert sum(dataset.task_sizes) == times * dataset.N_CLASSES


def test_an_unknown_benchmark_names_the_nearest():
    """A typing error."""
    with pytest.raises(ValueError, match="unknown data set 'seq-digit'; did you mean seq-digits"):
        get_dataset_class("seq-digit")


def test_an_unknown_config_names_the_nearest():
    """As for flags."""
    with pytest.raises(ValueError, match=r"unknown --dataset_config 'ofline' for seq-digits; did you mean offline"):
        config_path("seq-digits", "ofline")


def test_a_config_may_be_a_file(tmp_path):
    """Its upper-case keys are facts of the benchmark, the rest flags."""
    path = tmp_path / "mine.yaml"
    path.write_text("N_TASKS: 2\nN_CLASSES_PER_TASK: [3, 7]\nlr: 0.5\n")
    assert read_config("seq-digits", str(path)) == ({"N_TASKS": 2, "N_CLASSES_PER_TASK": [3, 7]}, {"lr": 0.5})
    dataset = digits(dataset_config=str(path))
    assert dataset.task_sizes == [3, 7]
    assert [pair[0].targets.unique().tolist() for pair in walk(dataset)] == [[0, 1, 2], [3, 4, 5, 6, 7, 8, 9]]
    assert get_dataset_class("seq-digits").N_TASKS == 5


def test_images_are_normalised_for_both_or_neither(tmp_path):
    """A config that normalises training images alone would test on others, in silence."""
    path = tmp_path / "mine.yaml"
    path.write_text("TRANSFORM: [ToTensor, {Normalize: {mean: [0.5], std: [0.5]}}]\n")
    with pytest.raises(ValueError, match=r"mine\.yaml: TEST_TRANSFORM has no Normalize"):
        read_config("seq-digits", str(path))


def test_a_config_that_is_no_file_is_refused():
    """The path is named."""
    with pytest.raises(ValueError, match=r"absent\.yaml: no such file"):
        config_path("seq-digits", "absent.yaml")


def test_an_unknown_fact_is_refused(tmp_path):
    """File and key are named."""
    path = tmp_path / "mine.yaml"
    path.write_text("N_TASK: 2\n")
    with pytest.raises(ValueError, match=r"mine.yaml: unknown key 'N_TASK'.*N_TASKS"):
        read_config("seq-digits", str(path))


def test_a_benchmark_can_be_registered_without_a_file(monkeypatch):
    """In a notebook."""
    import datasets

    monkeypatch.setattr(datasets._registry, "_entries", dict(get_dataset_names()))
    register_dataset("my_squares")(Squares)
    assert isinstance(get_dataset(arguments(dataset="my-squares")), Squares)


def test_the_data_folder_is_absolute(tmp_path, monkeypatch):
    """Messages name it, and a path below another working directory would mislead."""
    monkeypatch.chdir(tmp_path)
    assert data_folder(Namespace(base_path="./data/"), "CIFAR10") == tmp_path / "data" / "CIFAR10"
