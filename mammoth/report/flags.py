"""Two tables of the methods, made from their parsers, YAML files and docstrings: what each is, and the values of its flags."""

import inspect
import re
import sys
from functools import cache
from typing import Any

import models
from mammoth.settings import MEMORY_FLAGS, model_config_path, resolve
from utils.args import Parser, actions_by_name
from utils.yaml_files import ROOT, read_yaml

BENCHMARK = "seq-cifar10"
MEMORY = 500  # any: values that depend on it are the published ones
CITATION = re.compile(r"\(([^()]*\b(?:19|20)\d\d\b[^()]*)\)")
PROTOCOLS = ("default", "online", "offline")


def markdown() -> str:
    """Return both tables in Markdown, methods by name."""
    names = sorted(name for name, kind in models.get_model_names().items() if _has_a_file(kind))
    return f"{_methods(names)}\n\n{_flags(names)}"


def own_flags(method: str) -> dict[str, str]:
    """Return the flags that a method declares or its YAML file sets, with their help; of the memory's, only what the file sets."""
    parser = Parser(add_help=False)
    models.get_model_class(method).get_parser(parser)
    known = actions_by_name(resolve(["--model", method, "--dataset", BENCHMARK, "--help"]).parser)
    in_yaml = {key for section in _sections(method).values() for key in _keys(section)}
    declared = [*actions_by_name(parser), *sorted(in_yaml.difference(actions_by_name(parser), ("batch_size", "n_epochs")))]
    return {name: known[name].help or "" for name in declared if name not in MEMORY_FLAGS or name in in_yaml}


def published(method: str, flag: str) -> str:
    """Return a flag's published values on the benchmark, one for each memory size where they differ; a dash if there is none."""
    entry = _sections(method).get(BENCHMARK, {})
    if flag not in _keys(entry):
        return "–"
    sizes = [key for key in entry if isinstance(key, int)] or [MEMORY]
    values = [_value(method, flag, "--model_config", "best", memory=size) for size in sizes]
    return values[0] if len(set(values)) == 1 else " / ".join(values)


def _has_a_file(kind: Any) -> bool:
    return isinstance(kind, type) and kind.__module__.startswith("models.")


def _methods(names: list[str]) -> str:
    rows = ["| method | what | settings | published values | source |", "|---|---|---|---|---|"]
    for name in names:
        kind = models.get_model_class(name)
        what = (inspect.getdoc(kind) or "").split("\n", 1)[0].rstrip(".")
        entries = {data: [str(key) for key in entry if isinstance(key, int)] for data, entry in _entries(name).items()}
        values = "; ".join(f"{data} ({', '.join(sizes) or 'any memory'})" for data, sizes in entries.items())
        rows.append(f"| {_link(kind.NAME)} | {what} | {', '.join(kind.COMPATIBILITY)} | {values or '–'} | {_source(kind)} |")
    return "\n".join(rows)


def _flags(names: list[str]) -> str:
    rows = ["| method | flag | online | offline | published | what |", "|---|---|---|---|---|---|"]
    for name in names:
        for flag, text in own_flags(name).items():
            online = _value(name, flag, "--dataset_config", "online")
            values = f"{online} | {_value(name, flag)} | {published(name, flag)}"
            rows.append(f"| {models.get_model_class(name).NAME} | `--{flag}` | {values} | {text} |")
    return "\n".join(rows)


def _link(name: str) -> str:
    own = f"methods/{name}.md"
    return f"[`{name}`]({name}.md)" if (ROOT / "docs" / own).is_file() else f"[`{name}`](../{name}.md)"


def _source(kind: type) -> str:
    """Return the citation in the first paragraph of a method's file."""
    found = CITATION.search((sys.modules[kind.__module__].__doc__ or "").split("\n\n")[0])
    return " ".join(found[1].split()) if found else "–"


def _sections(method: str) -> dict[str, dict[Any, Any]]:
    path = model_config_path(method)
    return read_yaml(path) if path.is_file() else {}


def _entries(method: str) -> dict[str, dict[Any, Any]]:
    return {name: section for name, section in _sections(method).items() if name not in PROTOCOLS}


def _keys(section: dict[Any, Any]) -> set[str]:
    nested = [_keys(value) for value in section.values() if isinstance(value, dict)]
    return {key for key in section if isinstance(key, str)}.union(*nested)


@cache
def _arguments(method: str, memory: int, *words: str) -> dict[str, Any]:
    sizes = ("--buffer_size", str(memory)) if "buffer_size" in _declared(method) else ()
    return vars(resolve(["--model", method, "--dataset", BENCHMARK, "--seed", "0", *sizes, *words]).args)


def _declared(method: str) -> set[str]:
    parser = Parser(add_help=False)
    models.get_model_class(method).get_parser(parser)
    return set(actions_by_name(parser))


def _value(method: str, flag: str, *words: str, memory: int = MEMORY) -> str:
    value = _arguments(method, memory, *words)[flag]
    return "–" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
