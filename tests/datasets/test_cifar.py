"""CIFAR's files: read, checked, missing or corrupt; written here in their published format, a few images each."""

import hashlib
import pickle
from argparse import Namespace
from pathlib import Path
from urllib.error import URLError

import numpy as np
import pytest
import torch
import torchvision.datasets.utils

from datasets import get_dataset
from datasets.seq_cifar10 import SequentialCIFAR10
from datasets.seq_cifar100 import SequentialCIFAR100

NAMES = {"seq-cifar10": SequentialCIFAR10, "seq-cifar100": SequentialCIFAR100}
COUNT = {"seq-cifar10": 10, "seq-cifar100": 100}
BOTH = pytest.mark.parametrize("name", sorted(NAMES))


def content(name, number):
    """Return what one file holds: each class once, every pixel different from file to file."""
    count = COUNT[name]
    rng = np.random.default_rng(number)
    labels = [int(label) for label in rng.permutation(count)]
    pixels = rng.integers(256, size=(count, 3072), dtype=np.uint8)
    if name == "seq-cifar100":
        return {"data": pixels, "fine_labels": labels, "coarse_labels": [label // 5 for label in labels], "batch_label": "x"}
    return {"data": pixels, "labels": labels, "batch_label": "x", "filenames": ["x.png"] * count}


def files_of(name):
    """Return the names of a data set's files, training first."""
    archive = NAMES[name].ARCHIVE
    return [*archive.train, *archive.test]


def folder_of(name, base):
    """Return the folder that holds them."""
    return base / NAMES[name].FOLDER / NAMES[name].ARCHIVE.folder


def lay_out(name, base, protocol=2, **changed):
    """Write all files under the base path; `changed` replaces the content of some."""
    folder = folder_of(name, base)
    folder.mkdir(parents=True)
    for number, file in enumerate(files_of(name)):
        (folder / file).write_bytes(pickle.dumps(changed.get(file, content(name, number)), protocol=protocol))


def dataset_of(name, base, **flags):
    """Return the benchmark on the files under a base path."""
    defaults = {"dataset": name, "dataset_config": None, "base_path": str(base), "verify_data": 0, "batch_size": 5, "device": "cpu"}
    return get_dataset(Namespace(**{**defaults, **flags}))


def publish(monkeypatch, name, base):
    """Make the files under a base path the published ones."""
    kind = NAMES[name]
    folder = folder_of(name, base)
    sums = {file: hashlib.md5((folder / file).read_bytes()).hexdigest() for file in files_of(name)}
    archive = kind.ARCHIVE
    parts = {part: {file: sums[file] for file in getattr(archive, part)} for part in ("train", "test")}
    monkeypatch.setattr(kind, "ARCHIVE", archive._replace(**parts))


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    """Every download fails as it does without a network."""

    def unreachable(*_, **__):
        raise URLError("no route to host")

    monkeypatch.setattr(torchvision.datasets.utils, "download_and_extract_archive", unreachable)


# -- reading -----------------------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("protocol", [2, 4])
def test_images_and_labels_are_read_in_file_order(tmp_path, name, protocol):
    """Red plane first, row by row, as published; labels renumbered by no one."""
    lay_out(name, tmp_path, protocol)
    dataset = dataset_of(name, tmp_path)
    numbers = {True: range(len(files_of(name)) - 1), False: [len(files_of(name)) - 1]}
    for train, files in numbers.items():
        found = dataset.split(train=train)
        expected = [content(name, number) for number in files]
        pixels = np.concatenate([one["data"] for one in expected])
        assert found.data.dtype == torch.uint8
        assert found.data.shape == (len(pixels), 32, 32, 3)
        for image, row, column, channel in ((0, 0, 0, 0), (1, 5, 7, 2), (9, 31, 30, 1)):
            assert found.data[image, row, column, channel] == pixels[image, 1024 * channel + 32 * row + column]
        assert torch.equal(found.images(torch.arange(len(pixels))), torch.from_numpy(pixels).view(-1, 3, 32, 32) / 255)
        assert found.targets.tolist() == [label for one in expected for label in one[NAMES[name].LABELS]]


def test_cifar100_takes_the_fine_labels(tmp_path):
    """100 classes, not the 20 coarse ones."""
    lay_out("seq-cifar100", tmp_path)
    assert dataset_of("seq-cifar100", tmp_path).split(train=False).targets.unique().tolist() == list(range(100))


def test_the_tasks_have_their_classes(tmp_path):
    """Five tasks of two, five images of each class for training, one for testing."""
    lay_out("seq-cifar10", tmp_path)
    dataset = dataset_of("seq-cifar10", tmp_path)
    for task in range(5):
        train, test = dataset.get_data_loaders()
        assert sorted(train.dataset.targets.tolist()) == [2 * task] * 5 + [2 * task + 1] * 5
        assert sorted(test.dataset.targets.tolist()) == [2 * task, 2 * task + 1]


@pytest.mark.parametrize(("config", "tasks", "classes"), [("online", 20, 5), ("default", 10, 10)])
def test_cifar100s_configs(tmp_path, config, tasks, classes):
    """20 tasks of 5 online, 10 of 10 offline."""
    lay_out("seq-cifar100", tmp_path)
    dataset = dataset_of("seq-cifar100", tmp_path, dataset_config=config)
    assert (dataset.N_TASKS, dataset.task_sizes) == (tasks, [classes] * tasks)
    assert dataset.get_data_loaders()[0].dataset.targets.unique().tolist() == list(range(classes))


def test_the_online_config_puts_pixels_into_minus_one_to_one(tmp_path):
    """No augmentation."""
    lay_out("seq-cifar10", tmp_path)
    ready, _, raw = next(iter(dataset_of("seq-cifar10", tmp_path, dataset_config="online").get_data_loaders()[0]))
    torch.testing.assert_close(ready, raw * 2 - 1)
    assert ready.min() < -0.9


def test_the_offline_config_augments_training_images_only(tmp_path):
    """Two passes over the training images differ, two over the test images agree."""
    lay_out("seq-cifar10", tmp_path)
    train, test = dataset_of("seq-cifar10", tmp_path, dataset_config="default").get_data_loaders()
    rows = torch.arange(10)
    assert not torch.equal(train.dataset.batch(rows)[0], train.dataset.batch(rows)[0])
    assert torch.equal(train.dataset.batch(rows)[2], train.dataset.batch(rows)[2])
    assert torch.equal(*[next(iter(test))[0] for _ in range(2)])


@pytest.mark.parametrize("config", ["default", "online"])
def test_strong_augmentation_changes_colours_before_normalising(tmp_path, config):
    """--transform_type strong, for stream and replay, on top of what the config does; test images stay as they are."""
    lay_out("seq-cifar10", tmp_path)
    weak = dataset_of("seq-cifar10", tmp_path, dataset_config=config)
    strong = dataset_of("seq-cifar10", tmp_path, dataset_config=config, transform_type="strong")
    names = [[name for name, _ in made.get_transform().specs] for made in (weak, strong)]
    assert [name for name in names[1] if name != "ColorJitter"] == names[0]
    assert names[1].index("ColorJitter") == names[1].index("ToTensor") - 1
    assert strong.TEST_TRANSFORM == weak.TEST_TRANSFORM
    batch = strong.get_data_loaders()[0].dataset.batch(torch.arange(2))
    assert batch[0].isfinite().all()


def test_asymmetric_noise_stays_within_superclasses():
    """Each CIFAR-100 class is taken for the next of its five, so that five steps lead back; numbers are the alphabet's."""
    follower, names = SequentialCIFAR100.CONFUSED_WITH, SequentialCIFAR100.CLASS_NAMES
    assert sorted(follower.values()) == list(range(100))
    circle = [names.index("bicycle")]
    for _ in range(5):
        circle.append(follower[circle[-1]])
    assert [names[label] for label in circle] == ["bicycle", "bus", "motorcycle", "pickup_truck", "train", "bicycle"]
    assert (names[0], names[99]) == ("apple", "worm")


# -- checking ----------------------------------------------------------------------------------------------------------


@BOTH
def test_files_that_are_not_the_published_ones_are_refused(tmp_path, name):
    """With --verify_data 1: the message names the file and the way out."""
    lay_out(name, tmp_path)
    with pytest.raises(ValueError, match=rf"{files_of(name)[0]} is not the published file.*--verify_data 0"):
        dataset_of(name, tmp_path, verify_data=1).split(train=True)


def test_files_are_checked_where_nothing_is_said(tmp_path):
    """The default is to insist."""
    lay_out("seq-cifar10", tmp_path)
    dataset = dataset_of("seq-cifar10", tmp_path)
    del dataset.args.verify_data
    with pytest.raises(ValueError, match="not the published file"):
        dataset.split(train=True)


@BOTH
def test_published_files_pass_the_check(tmp_path, monkeypatch, name):
    """And count as original."""
    lay_out(name, tmp_path)
    publish(monkeypatch, name, tmp_path)
    dataset = dataset_of(name, tmp_path, verify_data=1)
    assert len(dataset.split(train=True)) > 0
    assert dataset.data_kind() == "original"


def test_one_flipped_pixel_fails_the_check(tmp_path, monkeypatch):
    """The changed file is named."""
    lay_out("seq-cifar10", tmp_path)
    publish(monkeypatch, "seq-cifar10", tmp_path)
    path = folder_of("seq-cifar10", tmp_path) / "data_batch_4"
    body = bytearray(path.read_bytes())
    body[5000] ^= 1
    path.write_bytes(body)
    dataset = dataset_of("seq-cifar10", tmp_path, verify_data=1)
    assert len(dataset.split(train=False)) == 10
    with pytest.raises(ValueError, match="data_batch_4 is not the published file"):
        dataset.split(train=True)


def test_unknown_images_are_altered(tmp_path):
    """Neither the published nor the known recompressed ones."""
    lay_out("seq-cifar10", tmp_path)
    assert dataset_of("seq-cifar10", tmp_path).data_kind() == "altered"


def test_the_known_recompressed_images_are_recognised(tmp_path, monkeypatch):
    """By a digest of the pixels, however the file around them was written."""
    digests = tuple(hashlib.blake2b(content("seq-cifar10", n)["data"].tobytes(), digest_size=8).hexdigest() for n in range(6))
    monkeypatch.setattr(SequentialCIFAR10, "RECOMPRESSED", digests)
    for protocol in (2, 4):
        base = tmp_path / str(protocol)
        lay_out("seq-cifar10", base, protocol)
        assert dataset_of("seq-cifar10", base).data_kind() == "recompressed"


def test_the_worst_file_decides_the_kind(tmp_path, monkeypatch):
    """Five published files and one that is not: altered; also when that one holds the test images."""
    lay_out("seq-cifar10", tmp_path)
    publish(monkeypatch, "seq-cifar10", tmp_path)
    (folder_of("seq-cifar10", tmp_path) / "test_batch").write_bytes(pickle.dumps(content("seq-cifar10", 99)))
    assert dataset_of("seq-cifar10", tmp_path).data_kind() == "altered"


# -- missing -----------------------------------------------------------------------------------------------------------


@BOTH
def test_missing_data_without_a_network_says_what_to_put_where(tmp_path, name):
    """Folder, files, reason and address."""
    with pytest.raises(FileNotFoundError) as caught:
        dataset_of(name, tmp_path).split(train=True)
    message = str(caught.value)
    for part in (str(folder_of(name, tmp_path)), *files_of(name), "no route to host", NAMES[name].ARCHIVE.url):
        assert part in message


@BOTH
def test_one_missing_file_is_missing_data(tmp_path, name):
    """Even where only the other split was asked for."""
    lay_out(name, tmp_path)
    (folder_of(name, tmp_path) / files_of(name)[-1]).unlink()
    with pytest.raises(FileNotFoundError, match=files_of(name)[-1]):
        dataset_of(name, tmp_path).split(train=True)


def test_a_download_with_a_wrong_checksum_is_missing_data(tmp_path, monkeypatch):
    """Torchvision raises RuntimeError for it."""

    def broken(*_, **__):
        raise RuntimeError("File not found or corrupted.")

    monkeypatch.setattr(torchvision.datasets.utils, "download_and_extract_archive", broken)
    with pytest.raises(FileNotFoundError, match="File not found or corrupted"):
        dataset_of("seq-cifar10", tmp_path).split(train=True)


@BOTH
def test_missing_data_is_downloaded_where_there_is_a_network(tmp_path, monkeypatch, name):
    """The published archive with its checksum, beside the data set's folder, where the files arrive whole; then they are read."""
    asked = []

    def download(url, root, md5):
        asked.append((url, md5))
        assert Path(root).parent == tmp_path / NAMES[name].FOLDER
        lay_out(name, tmp_path / "made")
        folder_of(name, tmp_path / "made").rename(Path(root) / NAMES[name].ARCHIVE.folder)

    monkeypatch.setattr(torchvision.datasets.utils, "download_and_extract_archive", download)
    assert len(dataset_of(name, tmp_path).split(train=False)) == COUNT[name]
    archive = NAMES[name].ARCHIVE
    assert asked == [(archive.url, archive.md5)]
    assert [path.name for path in (tmp_path / NAMES[name].FOLDER).iterdir() if path.is_dir()] == [archive.folder]


def test_data_at_hand_is_not_downloaded(tmp_path, monkeypatch):
    """No call at all."""
    lay_out("seq-cifar10", tmp_path)
    monkeypatch.setattr(torchvision.datasets.utils, "download_and_extract_archive", lambda *_, **__: pytest.fail("a download"))
    dataset_of("seq-cifar10", tmp_path).split(train=True)


def test_checksums_are_torchvisions():
    """Address and sums of every file, typed twice by different people."""
    from torchvision.datasets import CIFAR10, CIFAR100

    for ours, theirs in ((SequentialCIFAR10.ARCHIVE, CIFAR10), (SequentialCIFAR100.ARCHIVE, CIFAR100)):
        assert (ours.url, ours.md5, ours.folder) == (theirs.url, theirs.tgz_md5, theirs.base_folder)
        assert list(ours.train.items()) == [tuple(pair) for pair in theirs.train_list]
        assert list(ours.test.items()) == [tuple(pair) for pair in theirs.test_list]


# -- corrupt -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", [0, 1, 100, 20_000, -1])
def test_a_truncated_file_is_named(tmp_path, cut):
    """A ValueError, whatever is left of it."""
    lay_out("seq-cifar10", tmp_path)
    path = folder_of("seq-cifar10", tmp_path) / "data_batch_3"
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(ValueError, match="data_batch_3 is corrupt"):
        dataset_of("seq-cifar10", tmp_path).split(train=True)


GOOD = content("seq-cifar10", 0)
WRONG = {
    "no_data": {"labels": GOOD["labels"]},
    "no_labels": {"data": GOOD["data"]},
    "coarse_labels_only": {"data": GOOD["data"], "coarse_labels": GOOD["labels"]},
    "fewer_labels": {**GOOD, "labels": GOOD["labels"][:-1]},
    "more_labels": {**GOOD, "labels": [*GOOD["labels"], 0]},
    "floats": {**GOOD, "data": GOOD["data"].astype(np.float32)},
    "wider": {**GOOD, "data": np.zeros((10, 3073), dtype=np.uint8)},
    "four_axes": {**GOOD, "data": GOOD["data"].reshape(-1, 3, 32, 32)},
    "objects": {**GOOD, "data": GOOD["data"].astype(object)},
    "lists": {**GOOD, "data": GOOD["data"].tolist()},
    "label_text": {**GOOD, "labels": ["0"] * 10},
    "label_none": {**GOOD, "labels": [None] * 10},
    "label_fraction": {**GOOD, "labels": [0.5] * 10},
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG.keys())
def test_a_file_with_other_content_is_named(tmp_path, wrong):
    """What is expected is said."""
    lay_out("seq-cifar10", tmp_path, data_batch_2=wrong)
    with pytest.raises(ValueError, match=r"data_batch_2 is corrupt: expected 'data' \(n x 3072 uint8\) and n 'labels'"):
        dataset_of("seq-cifar10", tmp_path).split(train=True)


@pytest.mark.parametrize(("label", "span"), [(10, "0 to 10"), (-1, "-1 to 9"), (2**40, f"0 to {2**40}")])
def test_labels_out_of_range_are_refused(tmp_path, label, span):
    """The span found and the one expected."""
    lay_out("seq-cifar10", tmp_path, test_batch={**GOOD, "labels": [label if one == 3 else one for one in GOOD["labels"]]})
    with pytest.raises(ValueError, match=f"seq-cifar10: labels from {span}, expected 0 to 9"):
        dataset_of("seq-cifar10", tmp_path).split(train=False)


def test_a_label_too_large_for_a_tensor_is_a_value_error(tmp_path):
    """2^70 is no int64; the file is named all the same."""
    lay_out("seq-cifar10", tmp_path, test_batch={**GOOD, "labels": [2**70] * 10})
    with pytest.raises(ValueError, match="test_batch"):
        dataset_of("seq-cifar10", tmp_path).split(train=False)


def test_a_file_that_would_execute_something_is_refused(tmp_path):
    """And nothing is executed."""

    class Canary:
        def __reduce__(self):
            return eval, (f"open({str(tmp_path / 'canary')!r}, 'w').close()",)

    lay_out("seq-cifar10", tmp_path, test_batch={**GOOD, "labels": Canary()})
    with pytest.raises(ValueError, match="test_batch is corrupt"):
        dataset_of("seq-cifar10", tmp_path).split(train=False)
    assert not (tmp_path / "canary").exists()
