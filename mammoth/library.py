"""Runs from one's own script or notebook: load a method and a benchmark, train, look at the record."""

from argparse import SUPPRESS, Namespace
from collections.abc import Mapping
from typing import Any

from datasets import ContinualDataset
from mammoth import runner, settings
from models import ContinualModel
from utils.args import actions_by_name


def command_words(flags: Mapping[str, Any]) -> list[str]:
    """Return flags as the words of a command line: True and False become 1 and 0, lists get commas, None is left out."""
    words = []
    for name, value in flags.items():
        if value is None:
            continue
        text = (
            ",".join(map(str, value)) if isinstance(value, list | tuple) else str(int(value) if isinstance(value, bool) else value)
        )
        words.append(f"--{name}={text}")
    return words


def load_runner(model: str, dataset: str, args: Mapping[str, Any] | None = None) -> tuple[ContinualModel, ContinualDataset]:
    """Build a method and a benchmark, as the command line does.

    Load and train one run before loading the next: a process has one set of random generators, begun by the last load.

    Args:
        model, dataset: names.
        args: further flags by name, for example `{"lr": 0.1, "dataset_config": "online"}`.

    Raises:
        ValueError: what the command line would complain of.
    """
    resolved = settings.resolve(["--model", model, "--dataset", dataset, *command_words(args or {})])
    parts = runner.build(resolved.args)
    return parts.model, parts.dataset


def train(model: ContinualModel, dataset: ContinualDataset, args: Namespace | None = None) -> dict[str, Any]:
    """Train over all tasks, evaluating after each, and keep a record on disk.

    Returns:
        The record: `class_il` and `task_il` (accuracy in percent; a row a stage, a column a task), `args`, `provenance`, ...

    Raises:
        InputError: the data or the results folder are not as they should be; nothing has been trained.
        TrainingDiverged: a loss that is not finite.
    """
    args = model.args if args is None else args
    parts = runner.Parts(model, dataset)
    with runner.open_tracker(args) as tracker:
        record = runner.make_record(parts, args, ["mammoth.train"])
        runner.train_and_close(parts, args, record, tracker)
    return record.content


def get_avail_args(
    dataset: str, model: str, backbone: str | None = None
) -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, Any]]]:
    """Return the flags of a method on a benchmark: those that must be given, and the others.

    Returns:
        Two dicts by name; each entry has `description` and `default`.
    """
    words = ["--model", model, "--dataset", dataset, *command_words({"backbone": backbone}), "--help"]
    required: dict[str, dict[str, Any]] = {}
    optional: dict[str, dict[str, Any]] = {}
    for name, action in actions_by_name(settings.resolve(words).parser).items():
        if action.help != SUPPRESS:
            chosen = required if action.required or (name == "lr" and action.default is None) else optional
            default = None if action.default == SUPPRESS else action.default
            chosen[name] = {"description": action.help, "default": default}
    return required, optional
