"""TensorBoard and Weights & Biases behind one adapter. Neither is imported, and nothing is sent, unless a run asks for it."""

import importlib
import os
from argparse import Namespace
from collections.abc import Callable
from typing import Any

from mammoth.records import results_folder
from utils.loggers import mean

EVERY = 20  # steps between two logged losses: each look waits for a GPU
Log = Callable[[dict[str, float], int], None]  # (values by name, steps so far)


class Tracker:
    """Hands a run's losses, accuracies and diagnostics to the trackers that its flags ask for; does nothing without any.

    Args:
        args: the resolved arguments.

    Raises:
        ValueError: a package is missing, one of W&B's two names is, or W&B cannot begin.
    """

    def __init__(self, args: Namespace) -> None:
        self.steps = 0
        self._method = args.model
        makers = [open_tensorboard] if args.tensorboard else []
        makers += [open_wandb] if asks_for_wandb(args) else []
        opened = [make(args) for make in makers]
        self._logs = [log for log, _ in opened]
        self._closers = [close for _, close in opened]

    def losses(self, observed: dict[str, Any]) -> None:
        """Count a step; log its losses every `EVERY` steps."""
        self.steps += 1
        if self._logs and self.steps % EVERY == 0:
            self._log({f"train/{name}": float(value) for name, value in observed.items()})

    def evaluation(self, class_il: list[float], task_il: list[float], diagnostics: dict[str, float]) -> None:
        """Log the accuracies (percent, one entry a task so far) after a task, and what the method reports about itself."""
        if self._logs:
            values = {"eval/class_il": mean(class_il), "eval/task_il": mean(task_il)}
            values |= {f"eval/class_il_task_{task}": accuracy for task, accuracy in enumerate(class_il, 1)}
            self._log(values | {f"{self._method}/{name}": value for name, value in diagnostics.items()})

    def _log(self, values: dict[str, float]) -> None:
        for log in self._logs:
            log(values, self.steps)

    def __enter__(self) -> "Tracker":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for close in self._closers:
            close(kind is None)


def open_tensorboard(args: Namespace) -> tuple[Log, Callable[[bool], None]]:
    """Return a function that logs into `<results>/tensorboard/<run id>` and one that ends it."""
    _package("tensorboard", "--tensorboard 1")
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(str(results_folder(args) / "tensorboard" / args.run_id))

    def log(values: dict[str, float], step: int) -> None:
        for name, value in values.items():
            writer.add_scalar(name, value, step)

    return log, lambda _: writer.close()


def wandb_names(args: Namespace) -> tuple[str | None, str | None]:
    """Return entity and project: the flags', else those of the environment (WANDB_ENTITY, WANDB_PROJECT)."""
    return args.wandb_entity or os.environ.get("WANDB_ENTITY"), args.wandb_project or os.environ.get("WANDB_PROJECT")


def asks_for_wandb(args: Namespace) -> bool:
    """Whether W&B is wanted: it has entity and project, and the run is no trial (`--debug_mode 1`).

    Raises:
        ValueError: a flag gives one of the two, and the other is nowhere.
    """
    entity, project = wandb_names(args)
    if (args.wandb_entity or args.wandb_project or args.wandb_name) and not (entity and project):
        raise ValueError("Weights & Biases needs both --wandb_entity and --wandb_project (or WANDB_ENTITY, WANDB_PROJECT)")
    return bool(entity and project) and not args.debug_mode


def open_wandb(args: Namespace) -> tuple[Log, Callable[[bool], None]]:
    """Return a function that logs to a W&B run, whose files go to `<results>/wandb`, and one that ends it."""
    wandb = _package("wandb", "--wandb_project")
    entity, project = wandb_names(args)
    folder = results_folder(args)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        run = wandb.init(entity=entity, project=project, name=args.wandb_name or args.run_id, dir=str(folder), config=_config(args))
    except wandb.Error as error:
        raise ValueError(f"Weights & Biases does not begin: {str(error).splitlines()[0]}") from error
    return (lambda values, step: run.log(values, step=step)), lambda good: run.finish(exit_code=0 if good else 1)


def _config(args: Namespace) -> dict[str, Any]:
    return {name: value for name, value in vars(args).items() if name != "list" and not name.startswith("wandb_")}


def _package(name: str, flag: str) -> Any:
    """Import an optional package. Raises ValueError, with the command that installs it, if it is missing."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise ValueError(f"{flag} needs the package {name!r}: pip install -r requirements-watch.txt") from error


__all__ = ["Tracker", "asks_for_wandb", "open_tensorboard", "open_wandb", "wandb_names"]
