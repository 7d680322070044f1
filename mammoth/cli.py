"""The command line: read it, run it, say how it went. Exit status 0 done, 1 failed, 2 wrong input, 130 or 143 interrupted."""

import sys
from argparse import Namespace
from pathlib import Path

from mammoth import not_installed
from utils.threads import prepare_environment

OURS = ("backbone", "datasets", "mammoth", "models", "utils")
EDITED = "a config or the method's file was edited while the sweep ran; start the sweep again"
STARTS_AGAIN = "interrupted; the record keeps the tasks that were done, and the same command starts again from the first"


def main(argv: list[str], run_id: str | None = None) -> int:
    """Run one command line and return the exit status.

    Args:
        run_id: of the run that a sweep planned by this command line; another one is not done.
    """
    try:
        return _main(argv, run_id)
    except KeyboardInterrupt:  # before the run, most likely in the seconds that importing torch takes
        return _complain("interrupted", 130)


def _main(argv: list[str], run_id: str | None) -> int:
    prepare_environment()  # before anything imports torch
    try:
        from mammoth import settings
    except ModuleNotFoundError as error:
        if Path(str(error.name).replace(".", "/")).parts[0] in OURS:
            raise
        return _complain(not_installed(str(error.name)), 2)

    try:
        if "--list" in argv:
            for notice in settings.add_folders(argv):
                print(notice)
            print(listing())
            return 0
        if not argv or set(argv) <= {"-h", "--help"}:
            parser = settings.common_parser()
            settings.name_choices(parser)
            print(parser.format_help())
            return 0
        resolved = settings.resolve(argv)
    except (ValueError, FileNotFoundError) as error:
        return _complain(error, 2)
    if getattr(resolved.args, "help", False):
        print(resolved.parser.format_help())
        return 0
    if run_id not in (None, resolved.args.run_id):
        return _complain(f"this command line means another run by now ({resolved.args.run_id}): {EDITED}", 2)
    return _run(resolved, argv)


def _run(resolved: "settings.Settings", argv: list[str]) -> int:  # type: ignore[name-defined]  # noqa: F821
    from datasets import get_dataset_class
    from mammoth import records
    from mammoth.interruption import Interrupted
    from mammoth.runner import ONE_IMAGE, BadMethod, InputError, TrainingDiverged, is_of_one_image, run
    from models import get_model_class
    from utils.loggers import LOG, setup_logging

    setup_logging()
    records.reset_peak()
    # of the code that has just been imported: reading images may take minutes, in which somebody edits a file
    records.source_digest(get_model_class(resolved.args.model), get_dataset_class(resolved.args.dataset))
    for notice in resolved.notices:
        LOG.info(notice)
    LOG.debug(Namespace(**{name: value for name, value in vars(resolved.args).items() if name != "list"}))
    LOG.info(_headline(resolved.args))
    if earlier := records.finished(resolved.args):
        LOG.info("a finished record of this run is there: %s; it is replaced when this one is done", earlier)
    try:
        record = run(resolved.args, ["main.py", *argv])
    except InputError as error:
        return _complain(error, 2)
    except (TrainingDiverged, BadMethod, OSError) as error:
        return _complain(error, 1)
    except ValueError as error:
        if not is_of_one_image(error):
            raise
        return _complain(ONE_IMAGE, 1)
    except (MemoryError, RuntimeError) as error:
        if not _lacks_memory(error):
            raise
        return _complain("not enough memory for this run; try a smaller --buffer_size, --batch_size or network", 1)
    except Interrupted as stop:
        return _complain(stop.message or STARTS_AGAIN, stop.status)
    except KeyboardInterrupt:
        return _complain(STARTS_AGAIN, 130)
    print(summary(record.content, str(record.path)))
    return 0


def _lacks_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out; torch has a class of its own for that on a GPU only."""
    return type(error).__name__ in ("MemoryError", "OutOfMemoryError") or "can't allocate memory" in str(error)


def _complain(error: object, status: int) -> int:
    lines = str(error).splitlines()[:2]
    sys.stderr.write("\n".join([f"error: {lines[0] if lines else type(error).__name__}", *lines[1:]]) + "\n")
    return status


def _headline(args: Namespace) -> str:
    memory = f", memory {args.buffer_size}" if getattr(args, "buffer_size", None) else ""
    replay = f" + {args.minibatch_size} replayed" if getattr(args, "minibatch_size", None) else ""
    return (
        f"{args.model} on {args.dataset} ({args.dataset_config or 'default'}, {args.protocol}): {args.n_epochs} epoch(s), "
        f"{args.batch_size}{replay} images a step, lr {args.lr:g}{memory}, seed {args.seed}"
    )


def listing() -> str:
    """Return all methods, benchmarks with their configs, and networks, a line each."""
    import models
    from backbone import REGISTERED_BACKBONES, get_backbone_names
    from datasets import get_config_names, get_dataset_names

    lines = ["methods (--model)"]
    lines += [f"  {name:<18}{_first_line(entry)}" for name, entry in models.get_model_names().items()]
    lines.append("benchmarks (--dataset), with their configs (--dataset_config)")
    for name, dataset in get_dataset_names().items():
        configs = "" if isinstance(dataset, Exception) else f" [{', '.join(get_config_names(name))}]"
        lines.append(f"  {name:<18}{_first_line(dataset)}{configs}")
    lines.append("networks (--backbone)")
    lines += [f"  {name:<18}{_first_line(REGISTERED_BACKBONES[name])}" for name in get_backbone_names()]
    return "\n".join(lines)


def _first_line(entry: object) -> str:
    if isinstance(entry, Exception):
        return f"(does not load: {type(entry).__name__}: {entry})"
    return (entry.__doc__ or "").strip().splitlines()[0] if entry.__doc__ else ""


def summary(record: dict, path: str) -> str:
    """Return what a user wants to know at the end: the matrix, ACC and FR, time, and where the record is."""
    from utils.loggers import format_matrix
    from utils.metrics import anytime_average_accuracy, average_accuracy, backward_transfer, forgetting

    on = record["data"].get("evaluated_on", "test images")
    where = "" if on == "test images" else f" on {on}"
    lines = ["", f"Class-IL accuracy (%){where}", format_matrix(record["class_il"]), ""]
    kinds = [("Class-IL", "class_il")] if record["setting"] == "domain-il" else [("Class-IL", "class_il"), ("Task-IL", "task_il")]
    for title, key in kinds:
        matrix = record[key]
        fall, transfer = forgetting(matrix), backward_transfer(matrix)
        lines.append(
            f"{title}{where}: ACC {average_accuracy(matrix):.2f} %, FR {_or_dash(fall)}, BWT {_or_dash(transfer)}, "
            f"anytime ACC {anytime_average_accuracy(matrix):.2f} %  (n=1)"
        )
    if record.get("forward_transfer") is not None:
        lines.append(f"forward transfer: {record['forward_transfer']:.2f}")
    provenance = record["provenance"]
    rate = provenance["steps"] / max(provenance["train_s"], 1e-9)
    lines.append(
        f"time: {provenance['wall_s']:.1f} s in all, {rate:.1f} steps/s, {provenance['threads']} thread(s), "
        f"{provenance['peak_memory_mb']:.0f} MB"
    )
    lines.append(f"record: {path}")
    return "\n".join(lines)


def _or_dash(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


__all__ = ["listing", "main", "summary"]
