"""Tiny ImageNet in Mammoth's arrays and in the published folder."""

import numpy as np
import pytest
import torch

from datasets import get_dataset
from mammoth.runner import InputError
from tests.datasets.made_files import write_tiny_folder


@pytest.fixture
def made(resolve):
    return lambda: get_dataset(resolve("--model", "sgd", "--dataset", "seq-tinyimg", "--lr", "0.1"))


def write_arrays(folder, images=2):
    """Twenty parts of each split: floats in [0, 1] that are multiples of 1/255, labels as they come."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    kept = {}
    for kind in ("train", "val"):
        pixels = rng.integers(0, 256, (20 * images, 64, 64, 3), dtype=np.uint8)
        labels = np.arange(20 * images) % 200
        for part in range(20):
            rows = slice(part * images, (part + 1) * images)
            np.save(folder / f"x_{kind}_{part + 1:02}.npy", pixels[rows] / 255)
            np.save(folder / f"y_{kind}_{part + 1:02}.npy", labels[rows])
        kept[kind] = pixels, labels
    return kept


def test_mammoths_arrays(made, tmp_path):
    """The pixels come back exactly, in order; the labels as stored."""
    kept = write_arrays(tmp_path / "TINYIMG" / "processed")
    for train, kind in ((True, "train"), (False, "val")):
        found = made().load(train)
        assert torch.equal(found.images, torch.from_numpy(kept[kind][0]))
        assert torch.equal(found.labels, torch.from_numpy(kept[kind][1]))


def test_the_published_folder(made, tmp_path):
    """Classes in the order of wnids.txt; validation images by val_annotations.txt; decoded once."""
    folder = tmp_path / "TINYIMG" / "tiny-imagenet-200"
    write_tiny_folder(folder, 2)
    train, test = made().load(True), made().load(False)
    assert (train.images.shape, test.images.shape) == ((400, 64, 64, 3), (200, 64, 64, 3))
    assert (train.images[:, 5, 5, 0].int() - train.labels).abs().max() <= 2  # JPEG
    assert test.labels.tolist() == list(range(200))
    assert (test.images[:, 5, 5, 0].int() - test.labels).abs().max() <= 2
    assert {path.name for path in folder.glob("*.pt")} == {"decoded-train-64x64.pt", "decoded-val-64x64.pt"}
    names = (folder / "wnids.txt").read_text(encoding="utf-8").split()
    (folder / "wnids.txt").write_text("\n".join(reversed(names)), encoding="utf-8")  # other labels for the same files
    assert made().load(False).labels.tolist() == list(range(199, -1, -1))


def test_a_file_that_cannot_be_read(made, resolve, tmp_path):
    """Named with the way out, which leaves image and label out together; fewer images than published are a sample."""
    folder = tmp_path / "TINYIMG" / "tiny-imagenet-200"
    names = write_tiny_folder(folder)
    (folder / "train" / names[3] / "images" / f"{names[3]}_0.JPEG").write_bytes(b"")
    with pytest.raises(ValueError, match="--skip_bad_images 1"):
        made().load(True)
    words = ("--model", "sgd", "--dataset", "seq-tinyimg", "--lr", "0.1", "--skip_bad_images", "1")
    dataset = get_dataset(resolve(*words))
    assert dataset.load(True).labels.tolist() == [label for label in range(200) if label != 3]
    assert (dataset.data_kind(), dataset.left_out()) == ("sample", 1)
    assert "_0.JPEG (an empty file)" in (folder / "decoded-train-64x64.left_out.txt").read_text()


def test_a_run(go, tmp_path):
    """Ten tasks of twenty classes through the reduced ResNet-18, whose features are then 640."""
    write_tiny_folder(tmp_path / "TINYIMG" / "tiny-imagenet-200")
    words = ("--model", "sgd", "--dataset", "seq-tinyimg", "--dataset_config", "online", "--n_iters", "1", "--stop_after", "1")
    assert go(*words)["task_sizes"] == [20] * 10


def test_what_is_wrong_is_named(made, go, tmp_path):
    """Nothing there; a class without images; a line that names nothing; an array of another shape, or one that asks for code."""
    root = tmp_path / "TINYIMG"
    with pytest.raises(InputError, match="no such folder"):
        go("--model", "sgd", "--dataset", "seq-tinyimg", "--lr", "0.1")
    folder = root / "tiny-imagenet-200"
    names = write_tiny_folder(folder)
    (folder / "train" / names[3] / "images" / f"{names[3]}_0.JPEG").unlink()
    with pytest.raises(ValueError, match=f"{names[3]}/images: no images"):
        made().load(True)
    (folder / "val" / "val_annotations.txt").write_text("nowhere.JPEG\tn00000001\n")
    with pytest.raises(ValueError, match=r"val_annotations\.txt, line 1"):
        made().load(False)
    (folder / "wnids.txt").write_text("n1\nn2\n")
    with pytest.raises(ValueError, match="2 classes, expected 200"):
        made().load(True)
    write_arrays(root / "processed")
    np.save(root / "processed" / "x_train_07.npy", np.zeros((2, 32, 32, 3)))
    with pytest.raises(ValueError, match=r"x_train_07\.npy: an array of shape \(2, 32, 32, 3\)"):
        made().load(True)
    np.save(root / "processed" / "x_train_07.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match=r"x_train_07\.npy is corrupt or no plain array"):
        made().load(True)
