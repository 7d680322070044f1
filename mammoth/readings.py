"""Readings of D-CWR compared on one and the same trained network.

    python -m mammoth.readings note --output FILE.pt --seed 0 [more flags of main.py]
    python -m mammoth.readings compare FILE.pt ... --output experiments/results/readings.json

With `--dcwr_apply predict` training never sees long-term memory, so all readings that only change how M^l is made of the head's
rows share their training. `note` runs PVBF on Split CIFAR-10, online, and writes down the head after each step and the test
images' features after each task; `compare` makes each reading's M^l of these notes and evaluates it: one variable at a time beside
the default. The reading that the run was made with must give the very accuracies of its record.
"""

import json
import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from datasets.utils.continual_dataset import evaluation_batch
from mammoth import records, settings
from mammoth.runner import InputError, TrainingDiverged, open_tracker, prepare, train_and_close
from models.pvbf import Pvbf, consolidate, retention_coefficients, sensory_memory
from utils.args import MANAGEMENT, Parser
from utils.checkpoints import read_archive
from utils.files import write_atomically
from utils.loggers import setup_logging
from utils.metrics import Matrix, average_accuracy, forgetting

RUN = ("--model", "pvbf", "--dataset", "seq-cifar10", "--dataset_config", "online", "--buffer_per_class", "500")


class Notes(NamedTuple):
    """What a run of PVBF leaves for `compare`."""

    heads: Tensor  # (steps, classes, features + 1): weights, and the bias as last column, after each step
    counts: Tensor  # (steps, classes) int64: occurrences of each class in the step, U
    ends: list[int]  # steps done at each task's end
    features: Tensor  # (tasks, images, features): of all test images after each task
    labels: Tensor  # (images,)
    ranges: list[list[int]]  # first class and one past the last of each task
    record: dict[str, Any]


# -- a run, written down ---------------------------------------------------------------------------------------------------------


def note(words: Sequence[str]) -> Notes:
    """Run PVBF and write down its head after each step, and the test images' features after each task.

    Args:
        words: of main.py's command line.

    Raises:
        InputError, TrainingDiverged, OSError: as a run.
    """
    args = settings.resolve(list(words)).args
    _refuse_training_with_it(args)
    heads: list[Tensor] = []
    counts: list[Tensor] = []
    ends: list[int] = []
    features: list[Tensor] = []
    with open_tracker(args) as tracker:
        torch.set_num_threads(args.threads or 1)
        parts, record = prepare(args, list(words))
        model, dataset = parts
        assert isinstance(model, Pvbf)
        update, end_task = model.dcwr.update, model.end_task

        def updating(head: torch.nn.Linear, labels: Tensor) -> None:
            heads.append(torch.cat([head.weight, head.bias[:, None]], 1).detach().cpu().clone())
            counts.append(torch.bincount(labels.cpu(), minlength=dataset.N_CLASSES))
            update(head, labels)

        def ending(current: Any) -> None:
            end_task(current)
            ends.append(len(heads))
            features.append(_features(model, tests))

        tests = [dataset.test_loader(task) for task in range(dataset.N_TASKS)]
        labels = torch.cat([batch[1].cpu() for loader in tests for batch in loader])
        vars(model.dcwr)["update"], vars(model)["end_task"] = updating, ending
        train_and_close(parts, args, record, tracker)
    ranges = [list(dataset.get_offsets(task)) for task in range(dataset.N_TASKS)]
    return Notes(torch.stack(heads), torch.stack(counts), ends, torch.stack(features), labels, ranges, record.content)


def _refuse_training_with_it(args: Namespace) -> None:
    """Raise ValueError unless D-CWR is on and only changes what predicts: notes of another training say nothing of the readings."""
    for name, needed in (("dcwr", 1), ("dcwr_apply", "predict")):
        if getattr(args, name) != needed:
            raise ValueError(f"--{name} {getattr(args, name)}: leave it out; readings are compared where training does not see M^l")


def _features(model: Pvbf, tests: Sequence[Any]) -> Tensor:
    training = model.net.training
    model.net.eval()
    with torch.inference_mode():
        found = torch.cat([model.net(batch[0], returnt="features").cpu() for loader in tests for batch in loader])
    model.net.train(training)
    return found


# -- readings --------------------------------------------------------------------------------------------------------------------


class Reading(NamedTuple):
    """How M^l is made of the noted heads. Section 3.5, eqs. 10-13."""

    mean: str = "images"  # of eq. 10: over the step's `images`, its distinct `classes`, all `seen` classes, one `scalar`, or `none`
    bias: bool = True
    p: float = 0.9
    one_draw: bool = False  # of epsilon a step, not one a class
    once_a_task: bool = False  # memories are updated at a task's end, from its occurrences
    linear: bool = False  # eta^l = P / U without the root
    seen_rows: bool = False  # rows of classes not met stay the head's


READINGS: dict[str, Reading] = {
    "the default: mean over the step's images": Reading(),
    "weights only, the bias stays the head's": Reading(bias=False),
    "mean over the step's distinct classes": Reading(mean="classes"),
    "mean over all classes seen": Reading(mean="seen"),
    "one scalar mean over all entries": Reading(mean="scalar"),
    "no mean subtracted": Reading(mean="none"),
    "one draw of epsilon a step": Reading(one_draw=True),
    "p = 1": Reading(p=1.0),
    "rows of classes not met stay the head's": Reading(seen_rows=True),
    "eta^l = P / U": Reading(linear=True),
    "memories updated once a task": Reading(once_a_task=True),
    "memories updated once a task, p = 1": Reading(once_a_task=True, p=1.0),
}
OWN_HEAD = "the network's own head (w/o D-CWR)"
LAST_STEPS = {"mean of the head over a task's last 50 steps": 50, "mean of the head over a task's last 200 steps": 200}


def sensory(rows: Tensor, present: Tensor, seen: Tensor, mean: str) -> Tensor:
    """Return M^s (classes, features) for a kind of mean in eq. 10.

    Args:
        rows: the head's; present: occurrences of each class in the step; seen: occurrences up to and with it.
    """
    members = {"classes": present > 0, "images": present, "seen": seen > 0}
    if mean in members:
        return sensory_memory(rows, members[mean])
    return rows - rows[present > 0].mean() if mean == "scalar" else rows


def long_term_heads(notes: Notes, reading: Reading) -> list[Tensor]:
    """Return the rows (classes, features + 1) that a reading predicts with after each task."""
    seed = notes.record["args"]["seed"]
    generator = torch.Generator().manual_seed(seed)
    short = long = torch.zeros_like(notes.heads[0])
    past = notes.heads.new_zeros(len(short))
    found, begin = [], 0
    for end in notes.ends:
        steps = [(notes.heads[end - 1], notes.counts[begin:end].sum(0))] if reading.once_a_task else []
        steps = steps or list(zip(notes.heads[begin:end], notes.counts[begin:end], strict=True))
        for rows, counts in steps:
            used = rows if reading.bias else rows[:, :-1]
            occurrences = counts.to(rows.dtype)
            eta_short, eta_long = retention_coefficients(past, occurrences)
            epsilon = torch.rand(1 if reading.one_draw else len(past), generator=generator)
            eta_short = torch.where(epsilon < reading.p, eta_short, torch.inf)
            fresh = torch.zeros_like(rows)
            fresh[:, : used.shape[1]] = sensory(used, occurrences, past + occurrences, reading.mean)
            short = consolidate(short, fresh, eta_short)
            long = consolidate(long, short, eta_long**2 if reading.linear else eta_long)
            past = past + occurrences
        head = long.clone()
        if not reading.bias:
            head[:, -1] = notes.heads[end - 1][:, -1]
        if reading.seen_rows:
            head[past == 0] = notes.heads[end - 1][past == 0]
        found.append(head)
        begin = end
    return found


def matrix(notes: Notes, heads: Sequence[Tensor]) -> Matrix:
    """Return the Class-IL accuracies in percent, over all outputs, of the noted features under these heads, one a task."""
    stages = []
    for stage, (head, features) in enumerate(zip(heads, notes.features, strict=True)):
        parts = features.split(evaluation_batch(features.device))  # as in evaluation: another size of batch could round otherwise
        guess = torch.cat([torch.nn.functional.linear(part, head[:, :-1], head[:, -1]).argmax(1) for part in parts])
        tasks = [(notes.labels >= first) & (notes.labels < past_last) for first, past_last in notes.ranges[: stage + 1]]
        stages.append([round(100 * float((guess[task] == notes.labels[task]).float().mean()), 4) for task in tasks])
    return stages


def compare(notes: Notes) -> dict[str, Matrix]:
    """Return each reading's accuracy matrix.

    Raises:
        ValueError: the reading that the run was made with does not give the matrix of its record.
    """
    makers: dict[str, Callable[[], list[Tensor]]] = {OWN_HEAD: lambda: [notes.heads[end - 1] for end in notes.ends]}
    makers |= {name: partial(long_term_heads, notes, reading) for name, reading in READINGS.items()}
    for name, steps in LAST_STEPS.items():
        makers[name] = partial(_last_means, notes, steps)
    found = {name: matrix(notes, make()) for name, make in makers.items()}
    args = notes.record["args"]
    own = Reading(mean=args["dcwr_mean"], bias=bool(args["dcwr_bias"]), p=args["pvbf_p"])
    if matrix(notes, long_term_heads(notes, own)) != notes.record["class_il"]:
        raise ValueError(f"the notes of seed {args['seed']} do not give the run's own accuracies: were they changed?")
    return found


def _last_means(notes: Notes, steps: int) -> list[Tensor]:
    begins = [0, *notes.ends[:-1]]
    return [notes.heads[max(begin, end - steps) : end].mean(0) for begin, end in zip(begins, notes.ends, strict=True)]


# -- the command line ------------------------------------------------------------------------------------------------------------


def read_notes(path: Path) -> Notes:
    """Read what `note` wrote; nothing in it can be executed. Raises ValueError if it is something else."""
    content = read_archive(path, "python -m mammoth.readings note writes one")
    if set(content) != set(Notes._fields):
        raise ValueError(f"{path} holds no notes of a run: python -m mammoth.readings note writes them")
    return Notes(**content)


def _refuse_unlike(runs: Sequence[dict[str, Any]]) -> None:
    """Raise ValueError if runs differ in more than their seeds, or two have one seed: they have no common mean."""
    for run in runs[1:]:
        other = [name for name in run if name not in (*MANAGEMENT, "seed") and run[name] != runs[0].get(name)]
        if other:
            raise ValueError(f"the notes are of runs with different --{other[0]}: compare them one by one")
    if len({run["seed"] for run in runs}) < len(runs):
        raise ValueError("two of the notes are of one seed: give each once")


def summary(found: Sequence[tuple[Notes, dict[str, Matrix]]]) -> dict[str, Any]:
    """Return what the page's table is made of: ACC and FR of each reading by seed, and where the networks come from."""
    runs = [notes.record for notes, _ in found]
    code = records.code_version()
    return {
        "seeds": [run["args"]["seed"] for run in runs],
        "readings": {
            name: {"ACC": [average_accuracy(m[name]) for _, m in found], "FR": [forgetting(m[name]) for _, m in found]}
            for name in found[0][1]
        },
        "commits": sorted({run["provenance"]["commit"] for run in runs}),
        "versions": runs[0]["provenance"]["versions"],
        "data": sorted({f"{run['data']['name']} {run['data']['kind']}" for run in runs}),
        "compared_by": f"{code['commit']}{' + changes' if code['dirty'] else ''}",
    }


def main(argv: list[str]) -> int:
    """Run one command line and return the exit status."""
    parser = Parser(prog="python -m mammoth.readings", description="Compare readings of D-CWR on the same trained networks.")
    parser.add_argument("what", choices=["note", "compare"])
    parser.add_argument("--output", type=Path, required=True, metavar="FILE", help="the notes (.pt), or the comparison (.json)")
    setup_logging()
    try:
        asked, rest = parser.parse_known_args(argv)
        if asked.what == "note":
            asked.output.parent.mkdir(parents=True, exist_ok=True)
            torch.save(note([*RUN, *rest])._asdict(), asked.output)
            return 0
        found = [(notes, compare(notes)) for notes in map(read_notes, map(Path, rest))]
        if not found:
            raise ValueError("compare needs files that note wrote")
        _refuse_unlike([notes.record["args"] for notes, _ in found])
        write_atomically(asked.output, json.dumps(summary(found), indent=1) + "\n")
    except (InputError, ValueError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    except (TrainingDiverged, OSError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    print(f"written: {asked.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
