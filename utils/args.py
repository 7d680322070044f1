"""The command line's flags, by group, and the types that check their values."""

import argparse
import math
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Collection, Iterable
from typing import Any, NoReturn

from utils import binary_to_boolean_type
from utils.registry import nearest

LARGEST = 2**31 - 1  # of whole numbers
BASE_PATH = "./data/"
SLIPS = {
    "model": "method strategy algorithm algo agent approach plugin",
    "dataset": "benchmark scenario dataset_name data_name",
    "dataset_config": "protocol config benchmark_config",
    "backbone": "network net arch architecture",
    "lr": "learning_rate learn_rate learningrate",
    "n_epochs": "epochs epoch num_epochs nepochs n_epoch max_epochs train_epochs",
    "n_iters": "iterations iters num_iters steps n_steps max_steps num_steps",
    "batch_size": "bs batch batchsize train_batch_size stream_batch_size",
    "minibatch_size": "replay_batch_size memory_batch_size mem_batch_size buffer_batch_size batch_size_mem",
    "buffer_size": "memory_size mem_size buffer memory mem replay_size replay_buffer_size memory_budget capacity n_memories",
    "buffer_per_class": "memory_per_class mem_per_class images_per_class exemplars_per_class",
    "optim_mom": "momentum",
    "optim_wd": "weight_decay wd",
    "optimizer": "optim opt",
    "lr_scheduler": "scheduler schedule",
    "seed": "random_seed manual_seed",
    "device": "gpu gpus cuda cpu gpu_id device_id use_cuda no_cuda accelerator",
    "data_path": "data data_dir data_root data_folder dataset_path dataset_dir dataset_root image_dir images root",
    "base_path": "data data_path data_dir data_root data_folder dataset_path dataset_dir dataset_root root",
    "results_path": "output output_dir output_path out_dir results_dir log_dir save_dir",
    "savecheck": "save save_model",
    "resume": "resume_from",
    "threads": "num_threads n_threads",
    "validation": "val val_split validation_split valid_split",
    "debug_mode": "debug",
    "num_classes": "n_classes nb_classes",
    "notes": "note comment",
}  # what flags are called elsewhere; of two that fit, the first that a parser has
Container = Any  # an ArgumentParser or one of its groups: argparse names no common public type


def meant(flag: str, known: Collection[str]) -> str | None:
    """Return the known flag that a common name of it stands for: `--learning-rate` for `--lr`; None if it is no such name."""
    name = flag.lstrip("-").replace("-", "_")
    return next((f"--{ours}" for ours, names in SLIPS.items() if name in names.split() and f"--{ours}" in known), None)


class Parser(ArgumentParser):
    """An argparse parser whose errors are `ValueError`s of one or two lines, with the nearest valid flag."""

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_abbrev=False, formatter_class=_HelpFormatter, **options)

    def error(self, message: str) -> NoReturn:
        """Raise instead of printing the usage and exiting."""
        raise ValueError(message.removeprefix("argument "))

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse as argparse does, which would take the value of `--flag=--` for an empty list, whatever the flag's type."""
        for word in args or ():
            if word.startswith("--") and word.endswith("=--"):
                raise ValueError(f"{word.removesuffix('=--')}: '--' is no value")
        return super().parse_known_args(args, namespace)

    def parse_strictly(self, argv: list[str]) -> Namespace:
        """Parse; raises ValueError for an unknown flag, a flag given twice, or a bad value."""
        given = [word.split("=", 1)[0] for word in argv if word.startswith("--")]
        twice = {flag for flag in given if given.count(flag) > 1 and not self._repeatable(flag)}
        if twice:
            raise ValueError(f"{', '.join(sorted(twice))}: given more than once")
        for flag in given:
            if flag not in self._option_string_actions and (ours := meant(flag, self._option_string_actions)):
                raise ValueError(f"unknown flag {flag}; did you mean {ours}?")
        known, unknown = self.parse_known_args(argv)
        for word in unknown:
            flag = word.split("=", 1)[0]
            hint = nearest(flag, self._option_string_actions) if flag.startswith("-") else "flags start with --"
            raise ValueError(f"unknown flag {flag}; {hint if 'there are' not in hint else 'see --help'}")
        return known

    def _repeatable(self, flag: str) -> bool:
        return isinstance(self._option_string_actions.get(flag), argparse._AppendAction)


class _Joined(argparse.Action):
    """Makes `35 45`, given as two words, the same as `35,45`."""

    def __call__(self, parser: Any, namespace: Namespace, values: Any, option_string: str | None = None) -> None:
        setattr(namespace, self.dest, ",".join(values))


class _HelpFormatter(argparse.RawDescriptionHelpFormatter):
    """Wide enough to read; shows each flag's default."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=34, width=120)

    def _get_help_string(self, action: argparse.Action) -> str | None:
        if action.default in (None, "", argparse.SUPPRESS) or not action.option_strings or action.nargs == 0:
            return action.help
        return f"{action.help} (default: {str(action.default).replace('%', '%%')})"


def number(
    kind: Callable[[str], Any], low: float = -math.inf, high: float = math.inf, open_low: bool = False
) -> Callable[[str], Any]:
    """Return an argparse type: an int or float in [low, high], or in (low, high] if `open_low`."""

    def read(text: str) -> Any:
        try:
            value = kind(text)
        except ValueError as error:
            what = "a whole number" if kind is int else "a number"
            raise argparse.ArgumentTypeError(f"{text!r} is not {what}") from error
        if not low <= value <= high or (open_low and value == low) or value in (math.inf, -math.inf):
            endless = high in (math.inf, LARGEST)
            least = f"{'above' if open_low else 'at least'} {low:g}"
            bounds = least if endless else f"{least} and at most {high:g}" if open_low else f"from {low:g} to {high:g}"
            raise argparse.ArgumentTypeError(f"{text} is out of range; it must be {bounds}")
        return value

    return read


def whole(low: int = 1) -> Callable[[str], Any]:
    """Return an argparse type: a whole number from `low` to 2^31 - 1."""
    return number(int, low, LARGEST)


def milestones(text: str) -> str:
    """Read epochs with commas or spaces between, such as `35,45`; an argparse type that gives them with commas."""
    words = text.replace(",", " ").split()
    if not all(word.isdigit() for word in words):
        raise argparse.ArgumentTypeError(f"{text!r} are not epochs; give whole numbers with commas between, such as 35,45")
    return ",".join(words)


def one_of(*names: str) -> Callable[[str], str]:
    """Return an argparse type: one of these words; the error names the nearest."""

    def read(text: str) -> str:
        if text not in names:
            raise argparse.ArgumentTypeError(f"{text!r} is not one of {', '.join(names)}")
        return text

    return read


def yes_or_no(text: str) -> int:
    """Read 0, 1, true, false, yes or no; an argparse type."""
    try:
        return binary_to_boolean_type(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def when_to_save(text: str) -> str:
    """Read `last`, `task` or a number of steps; an argparse type."""
    if text in ("last", "task") or (text.isascii() and text.isdigit() and 0 < int(text) <= LARGEST):
        return text
    raise argparse.ArgumentTypeError(f"{text!r} is not last, task or a number of steps, such as 500")


def file_name(text: str) -> str:
    """Read a word that may be part of a file's name; an argparse type."""
    if not text or "/" in text or "\0" in text:
        raise argparse.ArgumentTypeError(f"{text!r} is no name of a file (letters, digits, - and _)")
    return text


def add_rehearsal_args(parser: Container) -> None:
    """Add the flags of a method with a memory, to a parser or an argument group."""
    positive = whole()
    parser.add_argument("--buffer_size", type=positive, metavar="N", help="memory: images in total")
    parser.add_argument("--buffer_per_class", type=positive, metavar="N", help="memory: images per class")
    parser.add_argument("--minibatch_size", type=positive, metavar="N", help="replayed images per step")


def add_choice_args(parser: Container) -> None:
    """Add the flags that choose what is run; they are read before all others."""
    parser.add_argument("--model", metavar="NAME", help="the method (--list shows all)")
    parser.add_argument("--dataset", metavar="NAME", help="the benchmark (--list shows all)")
    parser.add_argument("--dataset_config", metavar="NAME", help="one of the benchmark's configs, or a YAML file")
    parser.add_argument("--model_config", metavar="NAME", default="default", help="default, or best: published values")
    parser.add_argument("--backbone", metavar="NAME", help="the network, instead of the benchmark's")


def add_folder_args(parser: Container) -> None:
    """Add the flags that name folders of methods and benchmarks outside the project."""
    flag = parser.add_argument
    flag("--models_path", action="append", metavar="DIR", help="a folder of methods; may be repeated (or MAMMOTH_MODELS_PATH)")
    flag("--datasets_path", action="append", metavar="DIR", help="a folder of benchmarks; repeatable (or MAMMOTH_DATASETS_PATH)")


def add_experiment_args(parser: Container) -> None:
    """Add the flags that change what is learnt."""
    positive, rate = whole(), number(float, 0, open_low=True)
    share = number(float, 0, 99.99)
    parser.add_argument("--seed", type=whole(0), metavar="N", help="every random choice follows from it; drawn if absent")
    parser.add_argument("--lr", type=rate, metavar="X", help="learning rate")
    parser.add_argument("--batch_size", type=positive, metavar="N", help="stream images per step")
    parser.add_argument("--n_epochs", type=positive, metavar="N", help="passes over each task")
    parser.add_argument("--n_iters", type=positive, metavar="N", help="steps in each task, instead of --n_epochs")
    parser.add_argument(
        "--optimizer", type=one_of("sgd", "adam", "adamw"), default="sgd", metavar="NAME", help="sgd, adam or adamw"
    )
    parser.add_argument("--optim_wd", type=number(float, 0), default=0.0, metavar="X", help="weight decay")
    parser.add_argument("--optim_mom", type=number(float, 0, 1), default=0.0, metavar="X", help="momentum")
    parser.add_argument("--optim_nesterov", type=yes_or_no, default=0, metavar="0|1", help="Nesterov momentum")
    parser.add_argument(
        "--lr_scheduler",
        type=one_of("none", "multisteplr", "cosine"),
        metavar="NAME",
        help="none, multisteplr or cosine",
    )
    parser.add_argument(
        "--scheduler_mode",
        type=one_of("epoch", "iter"),
        default="epoch",
        metavar="NAME",
        help="step the schedule each epoch or iter",
    )
    parser.add_argument(
        "--lr_milestones",
        type=milestones,
        nargs="+",
        action=_Joined,
        default="",
        metavar="A,B",
        help="epochs at which multisteplr lowers the rate",
    )
    parser.add_argument("--sched_multistep_lr_gamma", type=rate, default=0.1, metavar="X", help="factor at each milestone")
    parser.add_argument(
        "--drop_last", type=yes_or_no, default=0, metavar="0|1", help="leave out a task's last batch if it is short"
    )
    parser.add_argument("--joint", type=yes_or_no, default=0, metavar="0|1", help="train on all classes at once, as one task")
    parser.add_argument(
        "--eval_classes",
        type=one_of("all", "seen"),
        default="seen",
        metavar="all|seen",
        help="Class-IL: argmax over all outputs, or the classes seen",
    )
    parser.add_argument(
        "--validation",
        type=share,
        default=0.0,
        metavar="X",
        help="evaluate on this percentage (below 1: fraction) of the training images, held out",
    )
    parser.add_argument("--permute_classes", type=yes_or_no, default=0, metavar="0|1", help="shuffle the class order (by the seed)")
    parser.add_argument("--custom_class_order", metavar="A,B,..", help="the classes in order of appearance")
    parser.add_argument("--custom_task_order", metavar="A,B,..", help="the tasks in order of appearance, from 0")
    parser.add_argument("--num_classes", type=positive, metavar="N", help="outputs of the network, if more than the classes")
    parser.add_argument("--debug_mode", type=yes_or_no, default=0, metavar="0|1", help="a few steps per task")
    parser.add_argument("--loadcheck", metavar="FILE", help="begin with these weights: a checkpoint, or a network's state_dict")
    parser.add_argument("--start_from", type=whole(0), metavar="N", help="evaluate the first N tasks without training on them")
    parser.add_argument(
        "--inference_only", type=yes_or_no, default=0, metavar="0|1", help="evaluate --loadcheck's model, train nothing"
    )
    parser.add_argument("--stop_after", type=positive, metavar="N", help="end after N tasks")
    add_fitting_args(parser)
    add_label_args(parser)


def add_fitting_args(parser: Container) -> None:
    """Add the flags that say how long a task is trained, and on what it is judged meanwhile."""
    flag, positive = parser.add_argument, whole()
    modes, metrics, sets = (
        one_of("epochs", "iters", "time", "early_stopping"),
        one_of("loss", "accuracy"),
        one_of("current", "complete"),
    )
    flag("--fitting_mode", type=modes, default="epochs", metavar="NAME", help="epochs, iters (--n_iters), or early_stopping")
    flag(
        "--validation_mode",
        type=sets,
        default="current",
        metavar="NAME",
        help="early stopping looks at the current task, or all so far",
    )
    flag("--early_stopping_patience", type=positive, default=5, metavar="N", help="looks without a gain before a task ends")
    flag("--early_stopping_metric", type=metrics, default="loss", metavar="NAME", help="loss or accuracy")
    flag("--early_stopping_freq", type=positive, default=1, metavar="N", help="look every N epochs")
    flag("--early_stopping_epsilon", type=number(float, 0), default=1e-6, metavar="X", help="the least that counts as a gain")
    flag("--eval_future", type=yes_or_no, default=0, metavar="0|1", help="evaluate on the tasks to come too (over all outputs)")
    flag(
        "--code_optimization",
        "-O",
        type=number(int, 0, 3),
        default=0,
        metavar="N",
        help="on a GPU: 1 allows TF32, 2 bfloat16 products",
    )


def add_label_args(parser: Container) -> None:
    """Add the flags that make training labels wrong or take them away."""
    flag, share, kinds = parser.add_argument, number(float, 0, 1, open_low=True), ("symmetric", "asymmetric")
    spellings = one_of(*kinds, "sym", "symm", "asym", "asymm")
    flag(
        "--label_perc_by_task",
        "--label_perc",
        "--lpt",
        dest="label_perc",
        type=share,
        default=1.0,
        metavar="X",
        help="share of each task's images that has a label",
    )
    flag(
        "--label_perc_by_class", "--lpc", type=share, default=1.0, metavar="X", help="share of each class's images that has a label"
    )
    flag(
        "--noise_type", type=spellings, default="symmetric", metavar="NAME", help="symmetric: any class; asymmetric: a similar one"
    )
    flag("--noise_rate", type=number(float, 0, 1), default=0.0, metavar="X", help="share of wrong training labels")


def add_management_args(parser: Container) -> None:
    """Add the flags that change where and how a run happens, never what it computes."""
    parser.add_argument("--base_path", default=BASE_PATH, metavar="DIR", help="folder of the data and the results")
    parser.add_argument("--results_path", default="results/", metavar="DIR", help="folder of the results, inside --base_path")
    parser.add_argument("--device", metavar="NAME", help="cpu, cuda:0, ... (default: the first GPU, else the CPU)")
    parser.add_argument(
        "--threads",
        type=whole(0),
        default=0,
        metavar="N",
        help="CPU threads; 0: all cores, shared with other runs",
    )
    parser.add_argument(
        "--verify_data",
        type=yes_or_no,
        metavar="0|1",
        help="insist on the published files' MD5 (default: 1, or MAMMOTH_VERIFY_DATA)",
    )
    parser.add_argument("--non_verbose", type=yes_or_no, default=0, metavar="0|1", help="no progress bar")
    parser.add_argument("--enable_other_metrics", type=yes_or_no, default=0, metavar="0|1", help="also measure forward transfer")
    parser.add_argument(
        "--record_variation", type=yes_or_no, default=0, metavar="0|1", help="record how parameters varied over each task"
    )
    parser.add_argument("--notes", metavar="TEXT", help="kept in the record")
    flag = parser.add_argument
    flag("--eval_epochs", type=whole(), metavar="N", help="show loss and accuracy every N epochs")
    flag("--disable_log", type=yes_or_no, default=0, metavar="0|1", help="no line in Mammoth's logs.pyd (the record is kept)")
    flag("--num_workers", type=whole(0), metavar="N", help="taken for Mammoth's sake: images are in memory, there are no workers")
    flag("--distributed", type=one_of("no", "dp", "ddp"), default="no", metavar="NAME", help="only no: a run has one device")
    flag("--load_best_args", action="store_true", help="the same as --model_config best")
    flag(
        "--disable_noisy_labels_cache", type=yes_or_no, default=0, metavar="0|1", help="taken for Mammoth's sake: there is no cache"
    )
    flag("--cache_path_noisy_labels", metavar="DIR", help="taken for Mammoth's sake: there is no cache")
    parser.add_argument(
        "--savecheck",
        type=when_to_save,
        metavar="last|task|N",
        help="checkpoint at the end; after each task too; or every N steps too",
    )
    parser.add_argument("--resume", metavar="auto|FILE", help="go on from the run's newest checkpoint, or from this one")
    parser.add_argument(
        "--keep_checkpoints", type=whole(), default=2, metavar="N", help="how many to keep beside the one at the end"
    )
    parser.add_argument(
        "--save_after_interrupt", type=yes_or_no, default=1, metavar="0|1", help="a checkpoint when a signal stops the run"
    )
    parser.add_argument("--checkpoint_path", default="./checkpoints/", metavar="DIR", help="folder of the checkpoints")
    parser.add_argument("--ckpt_name", type=file_name, metavar="NAME", help="stands before the run's name in that folder")
    parser.add_argument(
        "--save_checkpoint_mode", type=one_of("safe", "old_pickle"), default="safe", metavar="NAME", help="only safe"
    )
    parser.add_argument("--tensorboard", type=yes_or_no, default=0, metavar="0|1", help="log into the results' tensorboard/")
    parser.add_argument("--wandb_name", metavar="NAME", help="Weights & Biases: the run's name (default: its id)")
    parser.add_argument("--wandb_entity", metavar="NAME", help="Weights & Biases: on with --wandb_project (or WANDB_ENTITY)")
    parser.add_argument("--wandb_project", metavar="NAME", help="Weights & Biases: on with --wandb_entity (or WANDB_PROJECT)")


MANAGEMENT = (
    "base_path",
    "models_path",
    "datasets_path",
    "results_path",
    "device",
    "threads",
    "verify_data",
    "non_verbose",
    "notes",
    "eval_epochs",
    "disable_log",
    "num_workers",
    "distributed",
    "load_best_args",
    "disable_noisy_labels_cache",
    "cache_path_noisy_labels",
    "loadcheck",  # the digest of what is in it counts
    "savecheck",
    "save_checkpoint_mode",
    "ckpt_name",
    "resume",
    "keep_checkpoints",
    "save_after_interrupt",
    "checkpoint_path",
    "tensorboard",
    "wandb_name",
    "wandb_entity",
    "wandb_project",
    "data_path",  # a benchmark's own: what is found there is among its facts
    "class_order",
)


def actions_by_name(parser: ArgumentParser) -> dict[str, argparse.Action]:
    """Return a parser's flags by the name of their value."""
    return {action.dest: action for action in parser._actions if action.dest != "help"}


def convert(action: argparse.Action, value: Any, where: str) -> Any:
    """Read a YAML value as the flag of that name would.

    Raises:
        ValueError: the value is not one that the flag takes; names where it stands.
    """
    if value is None:
        return None
    text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    try:
        read = action.type(text) if callable(action.type) else text
    except (argparse.ArgumentTypeError, TypeError, ValueError) as error:
        raise ValueError(f"{where}: {action.dest}: {error}") from error
    if action.choices is not None and read not in action.choices:
        raise ValueError(f"{where}: {action.dest}: {read!r} is not one of {_listed(action.choices)}")
    return read


def _listed(values: Iterable[Any]) -> str:
    return ", ".join(map(str, values))
