"""How near the framework is to the floor of the machine: ratios measured within one run, medians of repeats.

    python scripts/benchmark.py [--quick] [--only step,buffer] [--output FILE.json] [--compare OLD.json]

Everything runs on one thread of the CPU (but `sweep`, which says what it takes) on images made in code. Two things that are
compared are timed in turn, repeat by repeat, and their ratio is the median of the repeats' ratios, so that a machine that
slows down slows both.
"""

import itertools
import json
import os
import pickle
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode

from backbone import get_backbone
from datasets import register_dataset
from datasets.seq_cifar10 import SequentialCIFAR10
from datasets.utils.continual_dataset import ContinualDataset, Split
from datasets.utils.image_set import BatchLoader, ImageSet
from mammoth import records, settings
from mammoth.runner import Parts, build
from models import get_model_names
from utils.args import Parser
from utils.augmentations import BatchTransform, Spec
from utils.buffer import Buffer
from utils.evaluate import evaluate_tasks
from utils.files import write_atomically
from utils.yaml_files import ROOT

ONLINE = ("--dataset", "seq-cifar10", "--dataset_config", "online", "--verify_data", "0", "--threads", "1", "--device", "cpu")
QUIET = ("--non_verbose", "1", "--seed", "0")
Timed = Callable[[], object]


@dataclass
class Line:
    """One measured number: `value` in `unit`; `ratio` to what `of` names, where there is such a thing."""

    section: str
    name: str
    value: float
    unit: str
    ratio: float | None = None
    of: str = ""


@dataclass
class Bench:
    """How long to measure, and where the made images lie."""

    quick: bool
    folder: Path

    @property
    def repeats(self) -> int:
        """How often each pair is timed in turn."""
        return 5 if self.quick else 15

    def base(self) -> tuple[str, str]:
        """Return the flag that sends a run to the made images."""
        return "--base_path", str(self.folder)


# -- timing ------------------------------------------------------------------------------------------------------------------


def seconds(action: Timed, times: int) -> float:
    """Return the time of one call, over `times` calls."""
    started = time.perf_counter()
    for _ in range(times):
        action()
    return (time.perf_counter() - started) / times


def in_turn(actions: Mapping[str, Timed], repeats: int, times: int) -> dict[str, list[float]]:
    """Time each action `repeats` times, one after the other each time; the first round warms up and does not count."""
    found: dict[str, list[float]] = {name: [] for name in actions}
    for repeat in range(repeats + 1):
        for name, action in actions.items():
            taken = seconds(action, times)
            if repeat:
                found[name].append(taken)
    return found


def ratio(times: list[float], floor: list[float]) -> float:
    """Return the median of the repeats' ratios."""
    return statistics.median(own / other for own, other in zip(times, floor, strict=True))


# -- images made in code -----------------------------------------------------------------------------------------------------


def write_cifar(folder: Path, per_file: int = 10_000) -> None:
    """Write noise in CIFAR-10's published format."""
    rng = np.random.default_rng(0)
    target = folder / SequentialCIFAR10.FOLDER / SequentialCIFAR10.ARCHIVE.folder
    target.mkdir(parents=True)
    for name in (*SequentialCIFAR10.ARCHIVE.train, *SequentialCIFAR10.ARCHIVE.test):
        pixels = rng.integers(0, 256, (per_file, 3072), dtype=np.uint8)
        labels = rng.permutation(per_file) % 10
        (target / name).write_bytes(pickle.dumps({"data": pixels, "labels": labels.tolist()}))


def many_classes(classes: int, tasks: int) -> str:
    """Register a benchmark of small noisy images with so many classes and tasks; returns its name."""
    name = f"made-{classes}-{tasks}"

    class Made(ContinualDataset):
        """Noise."""

        NAME, SETTING, SIZE = name, "class-il", (8, 8, 1)
        N_CLASSES, N_TASKS, N_CLASSES_PER_TASK = classes, tasks, classes // tasks

        def load(self, train: bool) -> Split:
            labels = torch.arange(classes).repeat_interleave(10)
            return Split(torch.randint(0, 256, (len(labels), 8, 8, 1), dtype=torch.uint8), labels)

    register_dataset(name)(Made)
    return name


# -- 1, 2, 9: a step beside the floor ----------------------------------------------------------------------------------------


def prepared(argv: list[str]) -> tuple[Parts, Iterator[Any]]:
    """Build a run, train a few steps of task 1 and begin task 2; return its parts and an endless stream of task 2's batches."""
    parts = build(settings.resolve(argv).args)
    model, dataset = parts
    model.net.train()
    for task in range(1 if dataset.joint else 2):
        loader, _ = dataset.get_data_loaders()
        model.meta_begin_task(dataset)
        model.meta_begin_epoch(0, dataset)
        if task == 0 and not dataset.joint:
            for inputs, labels, raw in itertools.islice(loader, 20):
                model.meta_observe(inputs, labels, raw, epoch=0)
            model.meta_end_epoch(0, dataset)
            model.meta_end_task(dataset)
    batches = (batch for _ in itertools.count() for batch in loader if len(batch[1]) == loader.batch_size)
    return parts, batches


def step_of(argv: list[str]) -> Timed:
    """Return one training step of a method in its second task, batch and replay included."""
    (model, _), batches = prepared(argv)

    def step() -> None:
        inputs, labels, raw = next(batches)
        model.meta_observe(inputs, labels, raw, epoch=0)

    return step


def floor_step(args: Namespace) -> Timed:
    """Return the floor: two forward passes, one backward pass and SGD on fixed tensors, with nothing else around them."""
    net = get_backbone(args).to(memory_format=torch.channels_last)
    images = [torch.randn(10, 3, 32, 32).to(memory_format=torch.channels_last) for _ in range(2)]
    labels = torch.randint(0, 10, (10,))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)

    def step() -> None:
        optimizer.zero_grad()
        (F.cross_entropy(net(images[0]), labels) + F.cross_entropy(net(images[1]), labels)).backward()
        optimizer.step()

    return step


def steps(bench: Bench) -> Iterator[Line]:
    """A training step of each method beside the floor, PVBF beside ER-ACE, the floor beside the matrix-multiply rate."""
    memory = ("--buffer_per_class", "20")
    args = settings.resolve(["--model", "er", *ONLINE, *memory, *bench.base(), *QUIET]).args
    rates = list(matrix_rate(bench))
    yield from rates
    floor = floor_step(args)
    with FlopCounterMode(display=False) as counter:
        floor()
    for group in (["er", "er_ace", "pvbf"], *([name] for name in rest_of_the_methods(bench))):
        actions = {"floor": floor}
        for name in group:
            has_memory = "buffer_size" in settings.actions_by_name(settings.resolve(["--model", name, "--help"]).parser)
            actions[name] = step_of(["--model", name, *ONLINE, *(memory if has_memory else ()), *bench.base(), *QUIET])
        found = in_turn(actions, bench.repeats, 10) if "pvbf" in group else in_turn(actions, 5, 5)
        if "pvbf" in group:
            taken = statistics.median(found["floor"])
            yield Line("step", "floor", taken * 1e3, "ms")
            yield Line("step", "floor", counter.get_total_flops() / taken / 1e9, "GFLOP/s", None, "")
            reached = counter.get_total_flops() / taken / 1e9 / rates[0].value
            yield Line("step", "floor beside matrix multiply", reached * 100, "%", reached, "matrix multiply")
            yield Line(
                "step", "pvbf", statistics.median(found["pvbf"]) * 1e3, "ms", ratio(found["pvbf"], found["er_ace"]), "er_ace"
            )
        for name in group:
            yield Line("step", name, statistics.median(found[name]) * 1e3, "ms", ratio(found[name], found["floor"]), "floor")


def rest_of_the_methods(bench: Bench) -> list[str]:
    """Return the other methods; a few of them in a quick run."""
    names = [name for name, kind in get_model_names().items() if isinstance(kind, type)]
    others = [name for name in names if name not in ("er", "er-ace", "pvbf", "joint")]
    return ["sgd", "derpp"] if bench.quick else others


def matrix_rate(bench: Bench) -> Iterator[Line]:
    """Yield the rate of a large matrix multiply on one thread."""
    left, right = torch.randn(2, 1024, 1024).unbind()
    times = in_turn({"mm": lambda: left @ right}, bench.repeats, 10)["mm"]
    yield Line("step", "matrix multiply, one thread", 2 * 1024**3 / statistics.median(times) / 1e9, "GFLOP/s")


# -- 3: images to batches ----------------------------------------------------------------------------------------------------


def batches(bench: Bench) -> Iterator[Line]:
    """Batches a second of stream and replay, with crop, flip and normalisation, beside the plain copy of the pixels."""
    images = ImageSet(torch.randint(0, 256, (10_000, 32, 32, 3), dtype=torch.uint8), torch.zeros(10_000, dtype=torch.int64))
    specs: list[Spec] = [
        {"RandomCrop": {"size": 32, "padding": 4}},
        "RandomHorizontalFlip",
        "ToTensor",
        {"Normalize": {"mean": [0.5], "std": [0.5]}},
    ]
    transform = BatchTransform(specs, "augmentation")
    memory = Buffer(5000)
    memory.eight_bit = True
    memory.add_data(examples=images.images(torch.arange(5000)), labels=torch.zeros(5000, dtype=torch.int64))
    for size in (10, 32):
        augmented = ImageSet(images.data, images.targets, transform)
        stream = itertools.chain.from_iterable(itertools.repeat(BatchLoader(augmented, size, torch.Generator())))
        actions: dict[str, Timed] = {
            "plain": partial(_plain, images, size, itertools.count()),
            "stream": partial(next, stream),
            "replay": partial(memory.get_data, size, transform=transform),
        }
        found = in_turn(actions, bench.repeats, 50)
        for name, times in found.items():
            of = "" if name == "plain" else "plain"
            yield Line(
                "batches", f"{name}, {size} images", 1 / statistics.median(times), "batches/s", ratio(times, found["plain"]), of
            )


def _plain(images: ImageSet, size: int, rows: Iterator[int]) -> object:
    return images.images(torch.arange(size) + next(rows) % 9000)


# -- 4: the memory -----------------------------------------------------------------------------------------------------------


def memory(bench: Bench) -> Iterator[Line]:
    """Insert and draw of ten images at three sizes of a full memory, and ten rows of its tensors with nothing of ours."""
    sizes = (10**3, 10**5, 10**6)
    images, labels = torch.rand(10, 1, 28, 28), torch.zeros(10, dtype=torch.int64)
    buffers = {}
    for size in sizes:
        buffer = buffers[size] = Buffer(size)
        buffer.eight_bit = True
        block = torch.randint(0, 256, (min(size, 20_000), 1, 28, 28), dtype=torch.uint8).float() / 255
        while len(buffer) < size:
            buffer.add_data(examples=block, labels=torch.zeros(len(block), dtype=torch.int64))

    def insert(buffer: Buffer) -> None:
        buffer.num_seen_examples = buffer.buffer_size  # just full, so that nearly all ten are written, whatever the size
        buffer.add_data(images, labels)

    def draw(buffer: Buffer) -> object:
        return buffer.get_data(10)

    def rows(buffer: Buffer) -> object:
        slots = torch.randint(buffer.buffer_size, (10,))
        return buffer._rows["examples"][slots], buffer._rows["labels"][slots]

    for name, work in {"insert": insert, "draw": draw, "image and label rows alone": rows}.items():
        actions: dict[str, Timed] = {f"{size:,} images": partial(work, buffer) for size, buffer in buffers.items()}
        found = in_turn(actions, bench.repeats, 100)
        least = "1,000 images"
        for what, times in found.items():
            beside = ratio(times, found[least])
            yield Line("memory", f"{name}, {what}", statistics.median(times) * 1e6, "us", beside, "" if what == least else least)


# -- 5: evaluation -----------------------------------------------------------------------------------------------------------


def evaluation(bench: Bench) -> Iterator[Line]:
    """Evaluation beside a bare forward pass over the same images at its best batch size."""
    argv = ["--model", "er", *ONLINE, "--buffer_per_class", "20", *bench.base(), *QUIET]
    model, dataset = build(settings.resolve(argv).args)
    dataset.get_data_loaders()
    tests = dataset.test_loaders[0]
    count = 1000 if bench.quick else len(tests.dataset)
    tests.dataset = ImageSet(tests.dataset.data[:count], tests.dataset.targets[:count], tests.dataset.transform)
    images = torch.randn(count, 3, 32, 32).to(memory_format=torch.channels_last)

    def bare(size: int) -> None:
        with torch.inference_mode():
            for part in images.split(size):
                model.net(part)

    model.net.eval()
    sizes = (50, 100, 200, 500)
    found = in_turn({str(size): partial(bare, size) for size in sizes}, 2 if bench.quick else 3, 1)
    best = min(sizes, key=lambda size: statistics.median(found[str(size)]))
    actions = {"bare": lambda: bare(best), "evaluation": lambda: evaluate_tasks(model, dataset, range(1))}
    found = in_turn(actions, bench.repeats, 1)
    yield Line("evaluation", f"bare forward, batches of {best}", count / statistics.median(found["bare"]), "images/s")
    rate = count / statistics.median(found["evaluation"])
    yield Line("evaluation", "evaluate_tasks", rate, "images/s", ratio(found["evaluation"], found["bare"]), "bare forward")


# -- 6, 7, 8: whole processes ------------------------------------------------------------------------------------------------


def main_py(*words: str) -> None:
    """Run main.py in a process of its own."""
    done = subprocess.run([sys.executable, "main.py", *words], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"main.py {' '.join(words)} failed: {done.stderr[-300:]}")


def start(bench: Bench) -> Iterator[Line]:
    """From the command to the first step on the bundled digits, and to the list of methods."""
    first = ("--model", "pvbf", "--n_iters", "1", "--stop_after", "1", "--results_path", str(bench.folder / "start"), *QUIET)
    imports = [sys.executable, "-c", "import torch"]
    actions: dict[str, Timed] = {
        "import torch": lambda: subprocess.run(imports, check=True),
        "one step": lambda: main_py(*first, *bench.base(), "--device", "cpu"),
    }
    found = in_turn(actions, 3, 1)
    yield Line("start", "import torch", statistics.median(found["import torch"]), "s")
    times = found["one step"]
    yield Line(
        "start", "a run of one step, digits", statistics.median(times), "s", ratio(times, found["import torch"]), "import torch"
    )


def peak(bench: Bench) -> Iterator[Line]:
    """Peak memory of the online CIFAR-10 run: all images loaded, a memory of 5,000, beside what torch and the images take alone."""
    folder = bench.folder / "peak"
    length = 100 if bench.quick else 600
    flags = ("--n_iters", str(length), "--buffer_per_class", "500", "--stop_after", "1", "--results_path", str(folder))
    main_py("--model", "er", *ONLINE, *bench.base(), *flags, *QUIET)
    (path,) = folder.glob("records/*/record.json")
    used = records.read_record(path)["provenance"]["peak_memory_mb"]
    code = (
        "import torch; from mammoth.records import peak_memory_mb; "
        "kept = torch.ones(60_000, 3072, dtype=torch.uint8); print(peak_memory_mb())"
    )
    alone = float(subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout)
    yield Line("peak", "torch and 60,000 images alone", alone, "MB")
    yield Line("peak", "online CIFAR-10 run, memory of 5,000", used, "MB", used / alone, "torch and the images")


def sweep(bench: Bench) -> Iterator[Line]:
    """Steps a second of one-thread runs side by side: ER, online CIFAR-10, 10 + 10 images, as a sweep runs them."""
    length = 60 if bench.quick else 100
    cores = len(os.sched_getaffinity(0))
    counts = [jobs for jobs in sorted({1, 2, cores}) if jobs <= cores]
    found: dict[int, list[float]] = {jobs: [] for jobs in counts}
    for turn, jobs in itertools.product(range(1 if bench.quick else 5), counts):
        folder = bench.folder / f"sweep{jobs}-{turn}"
        flags = ("--n_iters", str(length), "--stop_after", "2", "--buffer_per_class", "20", "--results_path", str(folder))
        words = [["--model", "er", *ONLINE, *bench.base(), *flags, *QUIET[:2], "--seed", str(job)] for job in range(jobs)]
        running = [
            subprocess.Popen([sys.executable, "main.py", *argv], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            for argv in words
        ]
        if any(process.wait() for process in running):
            raise RuntimeError("a run of the sweep's benchmark failed")
        runs = [records.read_record(path)["provenance"] for path in folder.glob("records/*/record.json")]
        found[jobs].append(sum(run["steps"] / run["train_s"] for run in runs))
    for jobs, rates in found.items():
        of = "" if jobs == 1 else "one job"
        yield Line("sweep", f"{jobs} job(s) of one thread", statistics.median(rates), "steps/s", ratio(rates, found[1]), of)


# -- 10: tasks and classes ---------------------------------------------------------------------------------------------------


def scale(bench: Bench) -> Iterator[Line]:
    """A step of PVBF at task 1, 20 and 200, and in the second of two tasks with 10, 100 and 1,000 classes (small perceptron)."""
    common = [
        "--model",
        "pvbf",
        "--backbone",
        "mnistmlp",
        "--lr",
        "0.01",
        "--batch_size",
        "10",
        "--n_epochs",
        "1",
        "--buffer_size",
        "500",
    ]
    quiet = ["--threads", "1", "--device", "cpu", *bench.base(), *QUIET]
    parts = build(settings.resolve([*common, "--dataset", many_classes(400, 200), *quiet]).args)
    model, dataset = parts
    found: dict[int, float] = {}
    for task in range(1, 201):
        loader, _ = dataset.get_data_loaders()
        model.meta_begin_task(dataset)
        times = []
        for inputs, labels, raw in itertools.chain.from_iterable([loader] * (20 if task in (2, 20, 200) else 1)):
            started = time.perf_counter()
            model.meta_observe(inputs, labels, raw, epoch=0)
            times.append(time.perf_counter() - started)
        model.meta_end_task(dataset)
        found[task] = statistics.median(times)
    for task in (2, 20, 200):
        yield Line("scale", f"task {task} of 200", found[task] * 1e3, "ms", found[task] / found[2], "" if task == 2 else "task 2")
    actions = {str(classes): step_of([*common, "--dataset", many_classes(classes, 2), *quiet]) for classes in (10, 100, 1000)}
    turned = in_turn(actions, bench.repeats, 20)
    for classes, times in turned.items():
        of = "" if classes == "10" else "10 classes"
        yield Line("scale", f"{int(classes):,} classes", statistics.median(times) * 1e3, "ms", ratio(times, turned["10"]), of)


# -- the command line --------------------------------------------------------------------------------------------------------

SECTIONS: dict[str, Callable[[Bench], Iterator[Line]]] = {
    "step": steps, "batches": batches, "memory": memory, "evaluation": evaluation, "start": start, "peak": peak, "sweep": sweep,
    "scale": scale,
}  # fmt: skip


def show(line: Line, old: dict[tuple[str, str, str], float]) -> str:
    """Return a line for a terminal; with the change since an older measurement, of the ratio where there is one."""
    beside = f"{line.ratio:8.3f} x {line.of}" if line.of and line.ratio is not None else ""
    key = (line.section, line.name, line.unit + line.of)
    now = line.ratio if line.of and line.ratio is not None else line.value
    change = f"  ({100 * (now / old[key] - 1):+.1f} %)" if old.get(key) else ""
    return f"{line.section:11}{line.name:42}{line.value:12.3f} {line.unit:10}{beside}{change}"


def known(path: Path | None) -> dict[tuple[str, str, str], float]:
    """Return the numbers of an older measurement. Raises ValueError if the file is none."""
    if path is None:
        return {}
    try:
        lines = json.loads(path.read_text(encoding="utf-8"))["lines"]
        return {
            (line["section"], line["name"], line["unit"] + line["of"]): line["ratio"] if line["of"] else line["value"]
            for line in lines
        }
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"--compare {path}: no benchmark's JSON ({error})") from error


def environment() -> dict[str, Any]:
    """Return what the numbers depend on: code, versions, machine."""
    return {
        **records.code_version(),
        "versions": records.versions(),
        "cpu": records.cpu_name(),
        "cores": len(os.sched_getaffinity(0)),
        "system": platform.platform(),
        "date": time.strftime("%Y-%m-%d"),
        "load_before": os.getloadavg()[0],
    }


def main(argv: list[str]) -> int:
    """Run one command line; returns the exit status."""
    parser = Parser(prog="python scripts/benchmark.py", description="Ratios to the floor of this machine, measured within one run.")
    parser.add_argument("--quick", action="store_true", help="under four minutes: fewer repeats, fewer methods")
    parser.add_argument("--only", default="", metavar="A,B", help=f"sections: {', '.join(SECTIONS)}")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write the numbers as JSON")
    parser.add_argument("--compare", type=Path, metavar="FILE", help="print the changes since this JSON file")
    try:
        asked = parser.parse_args(argv)
        wanted = asked.only.split(",") if asked.only else list(SECTIONS)
        unknown = [name for name in wanted if name not in SECTIONS]
        if unknown:
            raise ValueError(f"--only {unknown[0]}: no such section; there are: {', '.join(SECTIONS)}")
        old = known(asked.compare)
    except ValueError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    torch.set_num_threads(1)
    content = {**environment(), "repeats": Bench(asked.quick, Path()).repeats, "quick": asked.quick}
    lines: list[Line] = []
    with tempfile.TemporaryDirectory(prefix="mammoth-benchmark-") as folder:
        bench = Bench(asked.quick, Path(folder))
        write_cifar(bench.folder)
        for name in wanted:
            for line in SECTIONS[name](bench):
                lines.append(line)
                print(show(line, old), flush=True)
    if asked.output:
        write_atomically(asked.output, json.dumps({**content, "lines": [asdict(line) for line in lines]}, indent=1) + "\n")
        print(f"written: {asked.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
