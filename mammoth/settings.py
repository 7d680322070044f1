"""From the command line to one resolved Namespace.

Each value comes from the first of these that gives one: the command line, the method's YAML file, the method's own defaults, the
benchmark's YAML file, the parser.
"""

import hashlib
import inspect
import json
import os
import secrets
from argparse import ArgumentTypeError, Namespace
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import datasets
import models
from backbone import backbone_flags, get_backbone_names
from datasets import ContinualDataset, check_transforms, config_path, get_config_names, get_dataset_class, read_config
from mammoth import records
from utils.args import (
    BASE_PATH,
    Parser,
    actions_by_name,
    add_choice_args,
    add_experiment_args,
    add_folder_args,
    add_management_args,
    convert,
    meant,
    whole,
    yes_or_no,
)  # fmt: skip
from utils.checkpoints import load_checkpoint
from utils.conf import get_device
from utils.registry import canonical, nearest
from utils.yaml_files import ROOT, read_yaml

BUNDLED = "seq-digits"
BUNDLED_NOTICE = (
    f"no --dataset given: running {BUNDLED}, which is bundled; "
    "the paper's benchmark is --dataset seq-cifar10 --dataset_config online"
)
ONE_EPOCH_NOTICE = "--n_epochs 1 alone changes the number of passes; the paper's online protocol is --dataset_config online"
LEAST_FILTERS = 16
PROTOCOLS = ("online", "offline")
MEMORY_FLAGS = ("buffer_size", "buffer_per_class", "minibatch_size")
REPLACED = {
    "transform_type": "of seq-cifar10 alone; elsewhere the images' transform is TRANSFORM in a YAML file, --dataset_config FILE"
}
MODEL_CONFIGS = ROOT / "models" / "config"


@dataclass
class Settings:
    """The outcome: the resolved arguments, what to tell the user, and the parser (for `--help`)."""

    args: Namespace
    parser: Parser
    notices: list[str] = field(default_factory=list)


def common_parser() -> Parser:
    """Return a parser with the flags that every run has."""
    parser = Parser(
        prog="main.py",
        usage="main.py --model NAME [--dataset NAME] [--dataset_config NAME] [flags]",
        description=DESCRIPTION,
        epilog=EPILOG,
    )
    choices = parser.add_argument_group("what to run")
    add_choice_args(choices)
    add_folder_args(choices)
    parser.add_argument("--list", action="store_true", help="print all methods, benchmarks, configs and networks")
    add_experiment_args(parser.add_argument_group("training and evaluation"))
    add_management_args(parser.add_argument_group("where and how"))
    return parser


DESCRIPTION = "Train a method of continual learning on a sequence of tasks, and record how well it remembers."
EPILOG = """examples:
  main.py --model pvbf                                         bundled digits, seconds
  main.py --model pvbf --dataset seq-cifar10 --dataset_config online --buffer_per_class 500 --seed 0
  main.py --model pvbf --dataset seq-cifar10 --help            adds that method's and that benchmark's flags"""


def name_choices(parser: Parser) -> None:
    """Put the names that there are into the help of --model, --dataset and --backbone."""
    there: dict[str, dict[str, Any]] = {
        "model": dict(models.get_model_names()),
        "dataset": dict(datasets.get_dataset_names()),
        "backbone": dict.fromkeys(get_backbone_names()),
    }
    for flag, entries in there.items():
        names = [name for name, entry in entries.items() if not isinstance(entry, Exception)]
        action = actions_by_name(parser)[flag]
        action.help = f"{(action.help or '').split(' (')[0]}: {', '.join(names)}"


def first_choices(argv: list[str]) -> Namespace:
    """Read the flags that decide which other flags there are."""
    parser = Parser(add_help=False)
    add_choice_args(parser)
    add_folder_args(parser)
    parser.add_argument("--buffer_size")
    parser.add_argument("--buffer_per_class")
    return parser.parse_known_args(argv)[0]


def add_folders(argv: list[str]) -> list[str]:
    """Add the folders of methods and benchmarks that the flags and the environment name; return notices of what they hide.

    Raises:
        ValueError: no such folder, or one that holds none.
    """
    asked = first_choices([word for word in argv if word not in ("-h", "--help")])
    notices = []
    for kind, add, given, variable in (
        ("methods", models.add_models_path, asked.models_path, "MAMMOTH_MODELS_PATH"),
        ("data sets", datasets.add_datasets_path, asked.datasets_path, "MAMMOTH_DATASETS_PATH"),
    ):
        from_environment = os.environ.get(variable, "").split(os.pathsep)
        for folder in [*(given or []), *filter(None, from_environment)]:
            if hidden := add(folder):
                notices.append(f"{kind} from {folder} take the place of those here: {', '.join(hidden)}")
    return notices


def model_config_path(model: str) -> Path:
    """Return the path of a method's YAML file (it need not exist): in `config/` of the folder where the method is."""
    stem = canonical(model).replace("-", "_")
    added = models.added_folder(models.get_model_class(model))
    return (added / "config" if added else MODEL_CONFIGS) / f"{stem}.yaml"


def model_settings(model: str, protocol: str, dataset: str, which: str, buffer_size: str | None) -> dict[str, Any]:
    """Return a method's settings from its YAML file: `default`, the protocol's, and with `which="best"` the published ones.

    Raises:
        ValueError: unknown `which`, or nothing published for this benchmark and memory; says what there is.
    """
    if which not in ("default", "base", "best"):
        raise ValueError(f"unknown --model_config {which!r}; there are: default, best")
    path = model_config_path(model)
    content = read_yaml(path) if path.is_file() else {}
    settings = _layered(*(_section(path, content, key) for key in ("default", protocol)))
    if which != "best":
        return settings
    published = {key: value for key, value in content.items() if key not in ("default", "online", "offline")}
    if dataset not in published:
        raise ValueError(f"--model_config best: nothing published for {model} on {dataset}; {_listing(published)}")
    entry = _section(path, content, dataset)
    sizes = {str(key): value for key, value in entry.items() if isinstance(key, int)}
    settings = _layered(settings, {key: value for key, value in entry.items() if not isinstance(key, int)})
    if sizes and str(buffer_size) not in sizes:
        raise ValueError(
            f"--model_config best: {model} on {dataset} has values for --buffer_size {', '.join(sizes)}, not {buffer_size}"
        )
    return _layered(settings, sizes.get(str(buffer_size)) or {})


def _section(path: Path, content: dict[str, Any], key: str) -> dict[str, Any]:
    """Return a section of a method's YAML file ({} if absent). Raises ValueError if it is no mapping."""
    section = content.get(key) or {}
    if not isinstance(section, dict):
        raise ValueError(f"{path}: {key}: expected `flag: value` lines, found a {type(section).__name__}")
    return section


def _layered(*layers: dict[str, Any]) -> dict[str, Any]:
    """Merge settings, later layers winning; one memory flag of a later layer puts the other out."""
    merged: dict[str, Any] = {}
    for layer in layers:
        if {"buffer_size", "buffer_per_class"} & layer.keys():
            merged = {name: value for name, value in merged.items() if name not in ("buffer_size", "buffer_per_class")}
        merged |= layer
    return merged


def _listing(published: dict[str, Any]) -> str:
    return f"there are: {', '.join(published)}" if published else "no entry at all"


@dataclass
class Choice:
    """What a command line runs, and what follows from that before any other flag is read."""

    model: type[models.ContinualModel]
    dataset: type[ContinualDataset]
    dataset_name: str
    config: str | None
    model_config: str
    backbone: str
    protocol: str
    facts: dict[str, Any]
    dataset_flags: dict[str, Any]
    buffer_size: str | None
    notices: list[str]

    def fact(self, name: str) -> Any:
        """Return a fact of the benchmark, as its config has it. Raises ValueError if it states none."""
        value = self.facts.get(name, getattr(self.dataset, name, None))
        if value is None:
            raise ValueError(f"the benchmark {self.dataset_name} states no {name}")
        return value


def choose(argv: list[str]) -> Choice:
    """Find the method, the benchmark with its config, and the network. Raises ValueError if there is no such thing."""
    notices = add_folders(argv)
    asked = first_choices(argv)
    if asked.model is None:
        slip = next((f" ({word} is no flag)" for word in argv if meant(word.split("=", 1)[0], ("--model",))), "")
        raise ValueError(f"--model is missing{slip}; {nearest('', models.get_model_names())}")
    model = models.get_model_class(asked.model)
    notices += [] if asked.dataset else [BUNDLED_NOTICE]
    if "--load_best_args" in argv:
        asked.model_config = "best"
        notices.append("--load_best_args is old: --model_config best says the same")
    dataset = get_dataset_class(asked.dataset or BUNDLED)
    name = canonical(dataset.NAME)
    if asked.dataset_config is None:
        asked.dataset_config = _config_of_the_method(model.NAME, name, asked)
    facts, flags = read_config(name, asked.dataset_config)
    where = config_path(name, asked.dataset_config)
    protocol = flags.pop("protocol", "offline")
    if protocol not in PROTOCOLS:
        raise ValueError(f"{where}: protocol: {protocol!r}; {nearest(str(protocol), PROTOCOLS)}")
    own = _benchmark_parser(dataset, flags, where)
    backbone = asked.backbone or flags.get("backbone") or own.get_default("backbone")
    if backbone is None:
        source = where or f"the benchmark {name}"
        raise ValueError(
            f"--backbone is missing: {source} names none (a config stands alone: it takes nothing over from the default one)"
        )
    if not asks_for_help(argv):
        found = dataset.facts_from(own.parse_known_args(argv)[0])
        if both := sorted(facts.keys() & found.keys()):
            raise ValueError(f"{where}: {both[0]} follows from the benchmark's own flags (--help lists them); leave it out")
        facts = facts | found
        if found:
            check_transforms(where, {"SIZE": getattr(dataset, "SIZE", None), **facts})
    return Choice(
        model, dataset, name, asked.dataset_config, asked.model_config, backbone, protocol, facts, flags, asked.buffer_size, notices
    )


def _config_of_the_method(model: str, dataset: str, asked: Namespace) -> str | None:
    """Return the `dataset_config` of a method's YAML file, in `default` or the values published for this benchmark; else None."""
    if asked.model_config == "best":
        published = model_config_path(model)
        if not published.is_file() or dataset not in read_yaml(published):
            return None  # an error that is raised once the flags are known
    return model_settings(model, "default", dataset, asked.model_config, asked.buffer_size).get("dataset_config")


def _benchmark_parser(dataset: type[ContinualDataset], flags: dict[str, Any], config: Path | None) -> Parser:
    """Return a parser of a benchmark's own flags alone, none of them required, with the defaults that its config gives."""
    parser = Parser(add_help=False)
    parser.add_argument("--base_path", default=BASE_PATH)
    group: Any = parser.add_argument_group()
    dataset.get_parser(group)
    parser.set_defaults(**_checked(parser, flags, config, tuple(flags)))
    for action in actions_by_name(parser).values():
        action.required = False
    return parser


def asks_for_help(argv: list[str]) -> bool:
    """Whether a command line asks for the list of flags instead of a run."""
    return "-h" in argv or "--help" in argv


def resolve(argv: list[str]) -> Settings:
    """Resolve a command line.

    Raises:
        ValueError: anything that is wrong with it, in one or two lines.
    """
    choice = choose(argv)
    parser = common_parser()
    declared = {name: action.default for name, action in actions_by_name(parser).items()}  # before a method or config sets others
    model_defaults = _add_method_flags(parser, choice.model)
    benchmark_group: Any = parser.add_argument_group(f"benchmark {choice.dataset_name}")
    choice.dataset.get_parser(benchmark_group)
    _add_backbone_flags(parser, choice.backbone)
    declared = {name: action.default for name, action in actions_by_name(parser).items()} | declared
    _set_defaults(parser, choice, model_defaults)
    if asks_for_help(argv):
        name_choices(parser)
        return Settings(Namespace(help=True), parser, choice.notices)
    _refuse_setting(choice)
    _refuse_memory_flags(parser, choice.model.NAME, argv)
    _refuse_replaced_flags(parser, argv)
    args = parser.parse_strictly(argv)
    _take_over(args, choice)
    given = {word[2:].split("=", 1)[0] for word in argv if word.startswith("--")}
    _settle(args, parser, given, choice.fact("N_CLASSES"))
    if args.n_epochs == 1 and "n_epochs" in given and choice.protocol == "offline":
        if "online" in get_config_names(choice.dataset_name):
            choice.notices.append(ONE_EPOCH_NOTICE)
    _settle_upstreams_flags(args, choice.notices)
    _settle_loading(args)
    _refuse_crash(args)
    choice.notices += _network_notices(args)
    args.run_id = records.run_id(args, declared)
    return Settings(args, parser, choice.notices)


def _set_defaults(parser: Parser, choice: Choice, model_defaults: dict[str, Any]) -> None:
    """Give the parser the defaults of the YAML files and of the method, later ones winning.

    Raises:
        ValueError: a file is wrong, or published values are asked for under another protocol than the benchmark's usual one.
    """
    name = choice.model.NAME
    if choice.model_config == "best":
        usual = read_config(choice.dataset_name, None)[1].get("protocol", "offline")
        if choice.protocol != usual:
            what = f"the published values for {choice.dataset_name} are of the {usual} protocol, not of {choice.protocol}"
            raise ValueError(f"--model_config best: {what}; leave one of the two out")
    model_yaml = model_settings(name, choice.protocol, choice.dataset_name, choice.model_config, choice.buffer_size)
    from_dataset = _checked(parser, choice.dataset_flags, config_path(choice.dataset_name, choice.config), MEMORY_FLAGS)
    from_model = _checked(parser, model_yaml, model_config_path(name), ())
    defaults = _layered(from_dataset, model_defaults, from_model)
    parser.set_defaults(**defaults)
    for flag, action in actions_by_name(parser).items():
        action.required = action.required and flag not in defaults


def _take_over(args: Namespace, choice: Choice) -> None:
    """Put what the choice settles into the arguments."""
    args.model, args.dataset = canonical(choice.model.NAME), choice.dataset_name
    args.backbone, args.protocol = canonical(choice.backbone), choice.protocol
    args.dataset_config = choice.config
    if choice.facts:
        args.facts = hashlib.sha256(json.dumps(choice.facts, sort_keys=True).encode()).hexdigest()[:8]
    args.models_path, args.datasets_path = (
        os.pathsep.join(paths or []) or None for paths in (args.models_path, args.datasets_path)
    )
    for name, folder, cls in (
        ("method_file", models.added_folder(choice.model), choice.model),
        ("dataset_file", datasets.added_folder(choice.dataset), choice.dataset),
    ):
        if folder is not None:
            setattr(args, name, hashlib.sha256(Path(inspect.getfile(cls)).read_bytes()).hexdigest()[:8])
    if args.num_classes is not None and args.num_classes < choice.fact("N_CLASSES"):
        raise ValueError(f"--num_classes {args.num_classes}: {args.dataset} has {choice.fact('N_CLASSES')}; give that or more")
    args.num_classes = args.num_classes or choice.fact("N_CLASSES")
    args.input_height, args.input_channels = choice.fact("SIZE")[0], choice.fact("SIZE")[2]


def _add_method_flags(parser: Parser, model_class: type[models.ContinualModel]) -> dict[str, Any]:
    """Add the method's flags; return the defaults that it sets for other flags."""
    before = dict(parser._defaults)
    known = set(actions_by_name(parser))
    group: Any = parser.add_argument_group(f"method {model_class.NAME}")
    model_class.get_parser(group)
    return {name: value for name, value in parser._defaults.items() if name in known and before.get(name, parser) != value}


def _add_backbone_flags(parser: Parser, backbone: str) -> None:
    group = parser.add_argument_group(f"network {canonical(backbone)}")
    for name, parameter in backbone_flags(backbone).items():
        kind: Any = whole() if isinstance(parameter.default, int) else str
        default = None if parameter.default is inspect.Parameter.empty else parameter.default
        group.add_argument(f"--{name}", type=kind, default=default, metavar="N", help=f"{name.replace('_', ' ')} of the network")


def _network_notices(args: Namespace) -> list[str]:
    """Return a line for each of the network's own sizes that is not at its default."""
    sizes = {name: entry.default for name, entry in backbone_flags(args.backbone).items()}
    changed = {name: default for name, default in sizes.items() if getattr(args, name) != default}
    return [
        f"{name.removeprefix('mlp_').replace('_', ' ')} is set to `{getattr(args, name)}` instead of the default `{default}`"
        for name, default in changed.items()
    ]


def _checked(parser: Parser, values: dict[str, Any], path: Path | None, ignored: tuple[str, ...]) -> dict[str, Any]:
    """Read YAML values as their flags would; those in `ignored` may belong to no flag of this method.

    Raises:
        ValueError: an unknown key, or a bad value; names file and key.
    """
    actions = actions_by_name(parser)
    for name in values:
        if name not in actions and name not in ignored:
            ours = meant(name, [f"--{flag}" for flag in actions])
            raise ValueError(f"{path}: unknown key {name!r}; {f'did you mean {ours[2:]}?' if ours else nearest(name, actions)}")
    return {name: convert(actions[name], value, str(path)) for name, value in values.items() if name in actions}


def _refuse_setting(choice: Choice) -> None:
    """Raise ValueError for a benchmark that no setting in the method's list has room for; one that lists none is let through.

    What needs no tasks (general-continual) runs on any benchmark; what is for Task-IL alone runs on a class-IL one, told its tasks.
    """
    takes, setting = getattr(choice.model, "COMPATIBILITY", None), choice.fact("SETTING")
    fitting = {setting, "general-continual"} | ({"task-il"} if setting == "class-il" else set())
    if takes and not fitting & set(takes):
        name = canonical(choice.model.NAME)
        raise ValueError(f"--model {name} takes {' and '.join(takes)} benchmarks; {choice.dataset_name} is {setting}")


def _refuse_replaced_flags(parser: Parser, argv: list[str]) -> None:
    """Raise ValueError for a flag of upstream Mammoth that something else stands for here."""
    for word in argv:
        flag = word.split("=", 1)[0].removeprefix("--")
        if flag in REPLACED and flag not in actions_by_name(parser):
            raise ValueError(f"--{flag}: {REPLACED[flag]}")


def _refuse_memory_flags(parser: Parser, model: str, argv: list[str]) -> None:
    """Raise ValueError for a flag of a memory, or a common name of one, that the method does not have."""
    known, memory = actions_by_name(parser), [f"--{name}" for name in MEMORY_FLAGS]
    for flag in (word.split("=", 1)[0] for word in argv if word.startswith("--")):
        ours = flag if flag in memory else meant(flag, memory)
        if ours and ours[2:] not in known and flag[2:] not in known:
            why = "draws no replay batch" if "buffer_size" in known else "keeps no memory"
            raise ValueError(f"{flag}: {model} {why}; leave the flag out")


def _settle(args: Namespace, parser: Parser, given: set[str], classes: int) -> None:
    """Fill in what follows from other values, and refuse what does not go together. `classes`: of the benchmark."""
    for name in ("lr", "batch_size", "n_epochs"):
        if getattr(args, name) is None:
            raise ValueError(f"--{name} is missing: neither {args.model} nor {args.dataset} has a default for it")
    if "buffer_size" in actions_by_name(parser):
        _settle_memory(args, given, classes)
    if args.verify_data is None:
        args.verify_data = _verify_data_of(os.environ.get("MAMMOTH_VERIFY_DATA") or "1")
    if args.optim_nesterov and not args.optim_mom:
        raise ValueError("--optim_nesterov 1 needs a momentum: give --optim_mom, for example 0.9")
    if args.lr_scheduler == "multisteplr" and not args.lr_milestones:
        raise ValueError("--lr_scheduler multisteplr needs epochs at which the rate falls: give --lr_milestones, such as 35,45")
    if args.debug_mode and "n_epochs" not in given:
        args.n_epochs = 1
    if args.seed is None:
        args.seed = secrets.randbits(31) if args.resume is None else _seed_of(args.resume)


def _seed_of(resume: str) -> int:
    """Return the seed of the run whose checkpoint `--resume` names. Raises ValueError if there is none to be read."""
    if resume == "auto":
        raise ValueError("--resume auto needs the run's --seed: checkpoints are found by it; --resume FILE does without")
    seed = load_checkpoint(Path(resume))["args"].get("seed")
    if not isinstance(seed, int):
        raise ValueError(f"--resume {resume}: the checkpoint names no seed; give --seed")
    return seed


def _settle_upstreams_flags(args: Namespace, notices: list[str]) -> None:
    """Refuse what upstream Mammoth's flags ask for and cannot be had here; say in a line what has no effect."""
    if args.distributed != "no":
        raise ValueError(
            f"--distributed {args.distributed}: a run has one device here; to use several, run a sweep (mammoth.sweep)"
        )
    if args.code_optimization == 3:
        raise ValueError("--code_optimization 3: torch.compile is not used here (networks change between tasks); use 2")
    if args.fitting_mode == "time":
        raise ValueError("--fitting_mode time: never implemented in Mammoth either; use epochs, iters or early_stopping")
    if args.fitting_mode == "iters" and args.n_iters is None:
        raise ValueError("--fitting_mode iters needs --n_iters")
    if args.fitting_mode == "early_stopping" and not args.validation:
        raise ValueError("--fitting_mode early_stopping needs held-out images: give --validation, for example 10")
    if args.label_perc != 1 and args.label_perc_by_class != 1:
        raise ValueError("--label_perc_by_task and --label_perc_by_class exclude each other: give one")
    if args.num_workers:
        notices.append(f"--num_workers {args.num_workers} has no effect: the images are in memory, and no process loads them")


def _settle_loading(args: Namespace) -> None:
    """Note what is in `--loadcheck`'s file, which makes another run; refuse what cannot be had."""
    args.start_from = args.start_from or None
    untrained = "--inference_only 1" if args.inference_only else f"--start_from {args.start_from}" if args.start_from else None
    if args.save_checkpoint_mode != "safe":
        raise ValueError("--save_checkpoint_mode old_pickle: reading such a file executes what it holds; use safe")
    if args.inference_only and args.loadcheck is None:
        raise ValueError("--inference_only 1 needs the model that it evaluates: give --loadcheck FILE")
    if untrained and args.enable_other_metrics:
        raise ValueError(f"{untrained} excludes --enable_other_metrics: forward transfer is of tasks that are trained")
    if args.loadcheck is None:
        return
    try:
        args.loadcheck_digest = hashlib.sha256(Path(args.loadcheck).read_bytes()).hexdigest()[:8]
    except OSError as error:
        reason = "nothing is fetched from the network" if "://" in args.loadcheck else error.strerror
        raise ValueError(f"--loadcheck {args.loadcheck}: no file that can be read ({reason})") from error


def _refuse_crash(args: Namespace) -> None:
    """Raise ValueError for a ResNet so narrow, on images so large, that a CPU's convolutions write out of bounds (docs/log.md)."""
    filters = getattr(args, "num_filters", LEAST_FILTERS)
    if filters < LEAST_FILTERS and args.input_height > 32 and get_device(args.device).type == "cpu":
        what = f"torch's convolutions crash on a CPU with so few channels on images larger than 32x32 ({args.input_height})"
        raise ValueError(f"--num_filters {filters}: {what}; give at least {LEAST_FILTERS}")


def _verify_data_of(word: str) -> int:
    try:
        return yes_or_no(word)
    except ArgumentTypeError as error:
        raise ValueError(f"the environment's MAMMOTH_VERIFY_DATA={word}: {error}") from error


def _settle_memory(args: Namespace, given: set[str], classes: int) -> None:
    """Turn `--buffer_per_class` into a total. Raises ValueError when both or neither are there."""
    if {"buffer_size", "buffer_per_class"} <= given:
        raise ValueError("--buffer_size (in total) and --buffer_per_class exclude each other: give one")
    if "buffer_size" in given:
        args.buffer_per_class = None
    elif args.buffer_per_class is not None:
        args.buffer_size = args.buffer_per_class * classes
    if args.buffer_size is None:
        raise ValueError(f"--buffer_size or --buffer_per_class is missing: {args.model} needs a memory")
    if args.minibatch_size is None:
        args.minibatch_size = args.batch_size
