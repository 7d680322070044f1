"""docs/own_images.md from a folder of photos to predictions, and what predict does with odd files, checkpoints and flags."""

import csv
import io
import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch
from pages import block
from PIL import Image

from datasets import get_dataset
from mammoth import cli, predict, settings
from models.er import Er
from utils.checkpoints import load_checkpoint, restore_model
from utils.yaml_files import ROOT

COLOURS = {"rouge vif": (220, 20, 20), "green": (20, 220, 20), "blue": (20, 20, 220), "écru": (230, 225, 200)}


def photo(path, colour, seed, size=(48, 36)):
    """Write a noisy photo of one colour."""
    path.parent.mkdir(parents=True, exist_ok=True)
    noise = np.random.default_rng(seed).integers(-15, 16, (size[1], size[0], 3))
    Image.fromarray(np.clip(np.array(colour) + noise, 0, 255).astype(np.uint8)).save(path)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder in which the page's first command has run: photos, results, a checkpoint; then the photos are taken away."""
    folder = tmp_path_factory.mktemp("mine")
    for place, (name, colour) in enumerate(COLOURS.items()):
        for number in range(40):
            photo(folder / "photos" / name / f"{number}.png", colour, 100 * place + number)
    words = block("own_images.md", "--savecheck last", "bash").split()[2:]
    quick = ("--backbone", "mnistmlp", "--lr", "0.01", "--n_epochs", "3", "--device", "cpu", "--threads", "1", "--seed", "0")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert cli.main([*words, *quick]) == 0
    shutil.rmtree(folder / "photos")
    shutil.rmtree(folder / "data" / "seq-folder")
    return folder


@pytest.fixture
def predicted(trained, monkeypatch, capsys):
    """Return a function that runs the page's second command, with more words: (status, stdout, stderr)."""

    def run(images, *more):
        (checkpoint,) = (trained / "checkpoints").glob("*/last.pt")
        words = block("own_images.md", "mammoth.predict", "bash").split()[3:]
        words = [str(images) if word == "new_photos" else word for word in words]
        words = [str(checkpoint) if word.startswith("checkpoints/") else word for word in words]
        monkeypatch.chdir(trained)
        capsys.readouterr()
        status = predict.main([*words, "--device", "cpu", *more])
        return status, *capsys.readouterr()

    return run


def test_from_photos_to_predictions(tmp_path, predicted):
    """New photos of other sizes and modes get their colour's class; probabilities fall from the first to the third."""
    for place, (name, colour) in enumerate(COLOURS.items()):
        for number, size in enumerate([(64, 64), (20, 90), (500, 300)]):
            photo(tmp_path / "new" / name / f"{number}.png", colour, place, size)
    Image.new("RGBA", (50, 50), (20, 20, 220, 255)).save(tmp_path / "new" / "alpha.png")
    status, out, err = predicted(tmp_path / "new")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert (status, err, len(rows)) == (0, "", 13)
    assert all(row["class"] == row["file"].split("/")[0] for row in rows if "/" in row["file"])
    assert {row["file"]: row["class"] for row in rows}["alpha.png"] == "blue"
    for row in rows:
        shares = [float(row[key]) for key in ("probability", "probability_2", "probability_3")]
        assert 1.001 >= sum(shares)
        assert shares == sorted(shares, reverse=True)


def test_json(tmp_path, predicted):
    """The same as a list of objects; one image instead of a folder; no more classes than there are."""
    photo(tmp_path / "one photo.png", COLOURS["green"], 7)
    status, out, _ = predicted(tmp_path / "one photo.png", "--format", "json")
    assert status == 0
    (entry,) = json.loads(out)
    assert entry["file"] == "one photo.png"
    assert entry["predictions"][0]["class"] == "green"
    assert len(entry["predictions"]) == 3


def test_it_predicts_what_evaluation_saw(trained, tmp_path):
    """The restored method gives the same logits as the one that was trained, PVBF's long-term head included."""
    (path,) = (trained / "checkpoints").glob("*/last.pt")
    checkpoint = load_checkpoint(path)
    model = restore_model(checkpoint, torch.device("cpu"))
    images = torch.rand(5, 3, 32, 32)
    with torch.inference_mode():
        assert torch.equal(model(images), model.dcwr.predict(model.net.classifier, model.net(images, returnt="features")))
        assert not torch.allclose(model(images), model.net(images))
    assert checkpoint["class_names"] == ["blue", "green", "rouge vif", "écru"]


def test_files_that_cannot_be_read(tmp_path, predicted):
    """Named on stderr with the reason; the others are predicted; exit status 1."""
    photo(tmp_path / "new" / "good.png", COLOURS["blue"], 0)
    (tmp_path / "new" / "bad.jpg").write_text("no image")
    (tmp_path / "new" / "empty.png").write_bytes(b"")
    status, out, err = predicted(tmp_path / "new")
    assert status == 1
    assert out.splitlines()[1].startswith("good.png,blue,")
    assert [line.rsplit("/", 1)[1].split(" ")[0] for line in err.splitlines()] == ["bad.jpg", "empty.png"]


def test_more_files_than_a_batch(tmp_path, predicted, monkeypatch):
    """Every file once, in natural order, over several batches."""
    monkeypatch.setattr(predict, "BATCH", 4)
    for number in range(11):
        photo(tmp_path / "new" / f"{number}.png", COLOURS["blue"], number, (8, 8))
    _, out, _ = predicted(tmp_path / "new")
    assert [line.split(",")[0] for line in out.splitlines()[1:]] == [f"{number}.png" for number in range(11)]


@pytest.mark.parametrize(
    ("content", "says"),
    [(None, "--savecheck last"), (b"", "corrupt or no checkpoint"), (b"not a checkpoint at all", "corrupt or no checkpoint")],
)
def test_what_is_no_checkpoint(content, says, tmp_path, capsys):
    """One line, exit status 2."""
    photo(tmp_path / "a.png", (0, 0, 0), 0)
    path = tmp_path / "last.pt"
    if content is not None:
        path.write_bytes(content)
    assert predict.main(["--checkpoint", str(path), "--images", str(tmp_path / "a.png")]) == 2
    error = capsys.readouterr().err
    assert says in error
    assert len(error.splitlines()) == 1


@pytest.mark.parametrize("kind", ["nowhere", "empty"])
def test_no_images(kind, tmp_path, predicted):
    """A folder that is not there or has no files."""
    (tmp_path / "empty").mkdir()
    status, out, err = predicted(tmp_path / kind)
    assert (status, out) == (2, "")
    assert err.startswith("error: --images")


def test_flags_that_do_not_fit(predicted, tmp_path):
    """Unknown formats and flags get a line."""
    assert predicted(tmp_path, "--format", "xml")[0] == 2
    assert "unknown flag --tops" in predicted(tmp_path, "--tops", "3")[2]


@pytest.mark.parametrize("method", ["er_ace", "icarl"])
def test_a_checkpoint_works_without_the_data(go, tmp_path, method):
    """Grey images and other methods, from the digits: the restored method is right about as often as the record says.

    iCaRL's means come from its memory, of which the checkpoint has the images.
    """
    record = go("--model", method, "--savecheck", "last", "--checkpoint_path", str(tmp_path / "kept"))
    checkpoint = load_checkpoint(tmp_path / "kept" / record["run_id"] / "last.pt")
    model = restore_model(checkpoint, torch.device("cpu"))
    args = settings.resolve(["--model", method, "--device", "cpu", "--seed", "0"]).args
    test = get_dataset(args).split(train=False)
    images = [image.numpy() for image in test.data]
    right = (predict.probabilities(model, checkpoint, images).argmax(1) == test.targets).float()
    tasks = [float(right[test.targets // 2 == task].mean()) * 100 for task in range(5)]
    assert tasks == pytest.approx(record["class_il"][-1], abs=0.01)


def test_a_method_for_task_il_alone_is_trained_and_refused(go, tmp_path, monkeypatch):
    """Its run ends with Task-IL accuracies alone; to predict, it would need the task of each photo."""
    monkeypatch.setattr(Er, "COMPATIBILITY", ["task-il"])
    monkeypatch.setattr(Er, "forward", lambda self, images, task: self.net(images))
    record = go("--model", "er", "--savecheck", "last", "--checkpoint_path", str(tmp_path / "kept"))
    assert record["class_il"][-1] == [0.0] * 5
    assert min(record["task_il"][-1]) > 50
    checkpoint = load_checkpoint(tmp_path / "kept" / record["run_id"] / "last.pt")
    model = restore_model(checkpoint, torch.device("cpu"))
    with pytest.raises(ValueError, match=r"^er is for Task-IL alone: .* cannot predict$"):
        predict.probabilities(model, checkpoint, [np.zeros((8, 8, 1), np.uint8)])


def test_a_method_from_a_folder_of_its_own(tmp_path):
    """It needs --models_path again, and says so by its name without."""
    (tmp_path / "mine").mkdir()
    lines = ["from models.sgd import Sgd", "class Mine(Sgd):", '    """Mine."""', '    NAME = "mine-alone"']
    (tmp_path / "mine" / "mine_alone.py").write_text("\n".join(lines), encoding="utf-8")
    photo(tmp_path / "photos" / "a.png", (220, 20, 20), 0)
    folder = ("--models_path", str(tmp_path / "mine"))
    saved = ("--savecheck", "last", "--checkpoint_path", str(tmp_path / "kept"))
    code = (
        "import sys; from mammoth import cli, predict; sys.exit((cli if sys.argv[1] == '--model' else predict).main(sys.argv[1:]))"
    )

    def run(*words):
        return subprocess.run([sys.executable, "-c", code, *words], cwd=ROOT, capture_output=True, text=True)

    trained = run("--model", "mine-alone", *folder, *saved, "--debug_mode", "1", "--base_path", str(tmp_path), "--device", "cpu")
    assert trained.returncode == 0, trained.stderr
    (checkpoint,) = (tmp_path / "kept").glob("*/last.pt")
    words = ("--checkpoint", str(checkpoint), "--images", str(tmp_path / "photos"))
    without = run(*words)
    assert without.returncode == 2
    assert "mine-alone" in without.stderr
    assert run(*words, *folder).stdout.count("\n") == 2
