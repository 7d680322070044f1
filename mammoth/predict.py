"""Predict with a trained model: `python -m mammoth.predict --checkpoint FILE --images DIR`.

Works from the checkpoint alone. Exit status 0 done, 1 some files cannot be read (named on stderr, the others are predicted),
2 wrong input.
"""

import csv
import io
import json
import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from utils.threads import prepare_environment

BATCH = 200


class Prediction(NamedTuple):
    """A file's most probable classes, the best first."""

    file: str
    classes: list[str]
    probabilities: list[float]


def parse(argv: list[str]) -> Namespace:
    """Read the command line. Raises ValueError for anything wrong with it."""
    from utils.args import Parser, add_folder_args, one_of, whole

    parser = Parser(prog="python -m mammoth.predict", description="Predict the classes of image files with a trained model.")
    flag = parser.add_argument
    flag("--checkpoint", required=True, metavar="FILE", help="a run writes one with --savecheck last")
    flag("--images", required=True, metavar="DIR", help="a folder of images, subfolders included, or one image")
    flag("--format", type=one_of("csv", "json"), default="csv", metavar="csv|json", help="of what is printed")
    flag("--top", type=whole(), default=1, metavar="N", help="classes a file, the most probable first")
    flag("--device", metavar="NAME", help="cpu, cuda:0, ... (default: the first GPU, else the CPU)")
    add_folder_args(parser)
    return parser.parse_strictly(argv)


def image_files(path: Path) -> list[Path]:
    """Return the files in a folder and its subfolders in natural order, hidden ones aside; or the one file.

    Raises:
        ValueError: no such folder or file, or nothing in it.
    """
    from datasets.seq_folder import images_in

    if path.is_file():
        return [path]
    if not path.is_dir():
        raise ValueError(f"--images {path}: no such folder or file")
    try:
        files = images_in(path)
    except OSError as error:
        raise ValueError(f"--images {path}: {error.filename} cannot be read ({error.strerror})") from error
    if not files:
        raise ValueError(f"--images {path}: no files in it")
    return files


def read(paths: list[Path], size: tuple[int, int, int]) -> Iterator[tuple[Path, Any]]:
    """Decode files in parallel; yield each with its image (height, width, channels) uint8, or the reason why there is none."""
    from datasets.utils.decode import read_image

    def one(path: Path) -> Any:
        try:
            return read_image(path, (size[0], size[1]), size[2])
        except ValueError as error:
            return str(error)

    with ThreadPoolExecutor() as threads:
        for first in range(0, len(paths), BATCH):
            block = paths[first : first + BATCH]
            yield from zip(block, threads.map(one, block), strict=True)


def probabilities(model: Any, checkpoint: dict[str, Any], images: list[Any]) -> Any:
    """Return the softmax over the classes seen in training, (images, classes), on the CPU.

    For a method that classifies by distances, such as iCaRL, these rank the classes and are no calibrated probabilities.

    Raises:
        ValueError: the method must be told each image's task, which nobody knows of a new photo.
    """
    import numpy as np
    import torch

    from utils.augmentations import BatchTransform
    from utils.evaluate import takes_task

    if takes_task(model):
        raise ValueError(
            f"{checkpoint['args']['model']} is for Task-IL alone: it must be told an image's task, so it cannot predict"
        )
    pixels = torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2).to(model.device)
    with torch.inference_mode():
        logits = model(BatchTransform(checkpoint["test_transform"])(pixels))
    return logits[:, : checkpoint.get("n_seen", len(checkpoint["class_names"]))].softmax(1).cpu()


def predict(model: Any, checkpoint: dict[str, Any], path: Path, top: int, bad: list[tuple[Path, str]]) -> Iterator[Prediction]:
    """Yield a prediction for each file that can be read, and put the others into `bad` with the reason."""
    names, root = checkpoint["class_names"], path if path.is_dir() else path.parent
    waiting: list[tuple[Path, Any]] = []

    def ready() -> Iterator[Prediction]:
        best = probabilities(model, checkpoint, [image for _, image in waiting]).topk(min(top, len(names)))
        for (file, _), values, labels in zip(waiting, best.values.tolist(), best.indices.tolist(), strict=True):
            yield Prediction(file.relative_to(root).as_posix(), [names[label] for label in labels], values)

    for file, image in read(image_files(path), checkpoint["size"]):
        if isinstance(image, str):
            bad.append((file, image))
            continue
        waiting.append((file, image))
        if len(waiting) == BATCH:
            yield from ready()
            waiting = []
    if waiting:
        yield from ready()


def write_csv(predictions: Iterable[Prediction], top: int, out: TextIO) -> None:
    """Write a line a file: `file,class,probability`, then `class_2,probability_2` and so on."""
    writer = csv.writer(out, lineterminator="\n")
    ranks = ["", *(f"_{rank}" for rank in range(2, top + 1))]
    writer.writerow(["file", *(f"{name}{rank}" for rank in ranks for name in ("class", "probability"))])
    for found in predictions:
        pairs = zip(found.classes, found.probabilities, strict=True)
        writer.writerow([found.file, *(value for name, share in pairs for value in (name, f"{share:.4f}"))])


def write_json(predictions: Iterable[Prediction], out: TextIO) -> None:
    """Write a list of `{"file": ..., "predictions": [{"class": ..., "probability": ...}, ...]}`."""
    entries = [
        {
            "file": found.file,
            "predictions": [
                {"class": name, "probability": round(share, 4)}
                for name, share in zip(found.classes, found.probabilities, strict=True)
            ],
        }
        for found in predictions
    ]
    json.dump(entries, out, indent=1, ensure_ascii=False)
    out.write("\n")


def main(argv: list[str]) -> int:
    """Run one command line and return the exit status."""
    prepare_environment()  # before anything imports torch
    from mammoth.settings import add_folders
    from utils.checkpoints import load_checkpoint, restore_model
    from utils.conf import get_device

    bad: list[tuple[Path, str]] = []
    try:
        args = parse(argv)
        path = Path(args.images)
        image_files(path)  # before the network is built
        add_folders(argv)
        checkpoint = load_checkpoint(Path(args.checkpoint))
        model = restore_model(checkpoint, get_device(args.device))
        top = min(args.top, len(checkpoint["class_names"][: checkpoint.get("n_seen")]))
        predictions = predict(model, checkpoint, path, top, bad)
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="surrogateescape")  # file names go out as the file system has them
        if args.format == "csv":
            write_csv(predictions, top, sys.stdout)
        else:
            write_json(predictions, sys.stdout)
    except BrokenPipeError:  # the reader, such as `head`, has had enough
        sys.stderr.close()
        return 0
    except ValueError as error:
        sys.stderr.write("error: " + "\n".join(str(error).splitlines()[:2]) + "\n")
        return 2
    for file, reason in bad:
        sys.stderr.write(f"cannot be read: {file} ({reason})\n")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
