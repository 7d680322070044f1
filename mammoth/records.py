"""A run's record: what is needed to defend its numbers.

`<base_path>/<results_path>/records/<run id>/record.json` holds the resolved arguments, both accuracy matrices, a confusion matrix
after each task, the method's own diagnostics, and where the numbers come from: code, versions, machine, data. Measures such as ACC
and FR are computed from the matrices when a table is made. The file is written at the start, after each task, and at the end.
"""

import ast
import hashlib
import json
import os
import platform
import resource
import subprocess
import sys
import time
from argparse import Namespace
from contextlib import suppress
from functools import cache, lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType
from typing import Any

from mammoth import __version__
from utils.args import MANAGEMENT
from utils.files import remove_leftovers, write_atomically
from utils.yaml_files import ROOT

SCHEMA = 1
NO_CODE = (":(exclude)experiments/results", ":(exclude)docs", ":(exclude)*.md")  # a sweep writes its rows while it runs
ENGINE_SOURCES = (
    "mammoth/runner.py", "mammoth/fitting.py", "mammoth/variation.py", "models/utils/*.py", "datasets/utils/__init__.py",
    "datasets/utils/continual_dataset.py", "datasets/utils/image_set.py", "backbone/*.py", "utils/augmentations.py",
    "utils/buffer.py", "utils/evaluate.py", "utils/randomness.py", "utils/schedulers.py",
)  # fmt: skip


def run_id(args: Namespace, declared: dict[str, Any]) -> str:
    """Return a run's name: readable, and unique for the arguments that matter.

    Paths, device, threads and notes do not matter; a flag at the default that it is declared with (`declared`, by name) does not
    either, so that a flag which the engine, a method or a benchmark gets later leaves old names as they are.
    """
    values = {
        name: value
        for name, value in sorted(vars(args).items())
        if name not in (*MANAGEMENT, "run_id", "list") and value != declared.get(name, args)
    }
    digest = hashlib.sha256(json.dumps(values, sort_keys=True, default=str).encode()).hexdigest()[:10]
    words = [args.model, args.dataset, args.dataset_config or "default"]
    if getattr(args, "buffer_size", None):
        words.append(f"b{args.buffer_size}")
    safe = "_".join(Path(str(word)).stem for word in words)
    return f"{safe}_s{args.seed}_{digest}"


# -- provenance ----------------------------------------------------------------------------------------------------------


def _without_docstrings(source: str) -> str:
    """Return a canonical text of a program: no comments, no layout, no docstrings."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
            if isinstance(body[0].value.value, str):
                body[0].value.value = ""
    return ast.dump(tree)


@cache
def _as_read_first(path: Path) -> str:
    """Return a file's canonical text as this process found it first: what it runs is what it imported, whoever edits the file."""
    return _without_docstrings(path.read_text(encoding="utf-8"))


def source_files(*classes: type) -> list[Path]:
    """Return the files that decide what a run computes: the engine's, and those of the method and the benchmark.

    Args:
        classes: the method's class and the benchmark's.
    """
    files = {path for pattern in ENGINE_SOURCES for path in ROOT.glob(pattern)}
    todo = [sys.modules[base.__module__] for cls in classes for base in cls.__mro__ if base.__module__ in sys.modules]
    done: set[str] = set()
    while todo:
        module = todo.pop()
        path = Path(getattr(module, "__file__", None) or "/")
        if module.__name__ in done:
            continue
        done.add(module.__name__)
        # a folder added by --models_path or --datasets_path is part of these packages, wherever it lies
        if module.__name__.split(".")[0] in ("models", "datasets") and path.suffix == ".py" and path.name != "__init__.py":
            files.add(path)
            todo += _modules_used(module)
    return sorted(files)


def _modules_used(module: ModuleType) -> list[ModuleType]:
    owners = {getattr(value, "__module__", None) or getattr(value, "__name__", None) for value in vars(module).values()}
    return [sys.modules[name] for name in owners if isinstance(name, str) and name in sys.modules]


def source_digest(*classes: type) -> str:
    """Return a digest of those files that changes with their code, not with comments or layout; the code of this process."""
    digest = hashlib.sha256()
    for path in source_files(*classes):
        digest.update(_as_read_first(path).encode())
    return digest.hexdigest()[:12]


def was_edited(*classes: type) -> bool:
    """Whether the code of those files is another by now than what this process found first."""
    return any(_without_docstrings(path.read_text(encoding="utf-8")) != _as_read_first(path) for path in source_files(*classes))


@lru_cache(maxsize=1)
def code_version() -> dict[str, Any]:
    """Return the commit that the code stands at, and whether it has changes since; `unknown` outside a git checkout."""
    try:
        commit = _git("rev-parse", "--short=12", "HEAD")
        dirty = bool(_git("status", "--porcelain", "--untracked-files=no", "--", ".", *NO_CODE))
    except (OSError, subprocess.SubprocessError):
        return {"commit": "unknown", "dirty": None}
    return {"commit": commit, "dirty": dirty}


def _git(*words: str) -> str:
    command = ["git", "-C", str(ROOT), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout.strip()


@lru_cache(maxsize=1)
def versions() -> dict[str, str]:
    """Return the versions of Python, of this project and of the libraries that compute."""
    found = {"python": platform.python_version(), "mammoth": __version__}
    for name in ("torch", "numpy"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "unknown"
    return found


def cpu_name() -> str:
    """Return the processor's name."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def reset_peak() -> None:
    """Let `peak_memory_mb` count from here on, where the system can: a sweep's process does one run after another."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")


def peak_memory_mb() -> float:
    """Return the process's largest resident memory so far, in MB (10^6 bytes).

    On Linux from /proc: `getrusage` there counts the memory of the process that started this one too.
    """
    status = Path("/proc/self/status")
    lines = status.read_text(encoding="utf-8").splitlines() if status.is_file() else []
    peak = [int(line.split()[1]) for line in lines if line.startswith("VmHWM:")]
    if peak:
        return round(peak[0] * 1024 / 1e6, 1)
    unit = 1 if sys.platform == "darwin" else 1024
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6, 1)


# -- the record ----------------------------------------------------------------------------------------------------------


def results_folder(args: Namespace) -> Path:
    """Return the folder of all results."""
    return Path(args.base_path) / args.results_path


def check_writable(args: Namespace) -> None:
    """Make the run's folders and write to them, so that a run does not find out at its end; what a killed one left there goes.

    Raises:
        ValueError: one cannot be made or written; says why.
    """
    _try_writing(results_folder(args), args.run_id, "records", "choose another --base_path or --results_path")
    if getattr(args, "savecheck", None):
        from utils.checkpoints import checkpoint_path  # here, since it imports torch, and reports do without

        _try_writing(Path(args.checkpoint_path), checkpoint_path(args).parent.name, "", "choose another --checkpoint_path")


def _try_writing(root: Path, run_id: str, below: str, way_out: str) -> None:
    folder = root / below / run_id
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder / "writable", "")
        (folder / "writable").unlink(missing_ok=True)
        remove_leftovers(folder)
    except OSError as error:
        raise ValueError(f"cannot write to {root} ({error.strerror or error}); {way_out}") from error


class Record:
    """One run's record, on disk from the beginning of its `with` block and kept there while the run goes on.

    An earlier record of the same run stands until that block begins; one that is done, until the new one is done too: till then
    that is in `rerun.json`.

    Args:
        args: the resolved arguments, with `run_id`.
        command: the command line.
    """

    def __init__(self, args: Namespace, command: list[str]) -> None:
        self.path = results_folder(args) / "records" / args.run_id / "record.json"
        self._working = self.path.with_name("rerun.json") if _is_done(self.path) else self.path
        self.started = time.monotonic()
        self.content: dict[str, Any] = {
            "schema": SCHEMA,
            "run_id": args.run_id,
            "status": "running",
            "args": {name: value for name, value in vars(args).items() if name not in ("list", "run_id")},
            "command": command,
            "class_il": [],
            "task_il": [],
            "confusion": [],
            "diagnostics": [],
            "provenance": {
                **code_version(),
                "versions": versions(),
                "host": platform.node(),
                "pid": os.getpid(),
                "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            },
        }

    def __getitem__(self, key: str) -> Any:
        return self.content[key]

    def update(self, **values: Any) -> None:
        """Set entries of the record."""
        self.content.update(values)

    def add_stage(self, class_il: list[float], task_il: list[float], confusion: Any, diagnostics: dict[str, Any]) -> None:
        """Append what an evaluation found and what the method reports, and save."""
        entries = {"class_il": class_il, "task_il": task_il, "confusion": confusion, "diagnostics": diagnostics}
        for name, value in entries.items():
            self.content[name].append(value)
        self.save()

    def __enter__(self) -> "Record":
        """Write the record of a run that begins. Raises OSError if the folder cannot be made or written."""
        self.save()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        """Close the record as what happened in the `with` block."""
        if error is None:
            self.finish("done")
        elif isinstance(error, KeyboardInterrupt):
            self.finish("interrupted", "stopped by the user")
        elif not isinstance(error, OSError):  # one that cannot be written stays as it was
            self.finish("failed", (str(error).splitlines() or [type(error).__name__])[0])

    def elapsed(self) -> float:
        """Return the seconds that the run has taken so far, those before it was resumed included."""
        return time.monotonic() - self.started

    def finish(self, status: str, reason: str | None = None) -> None:
        """Close the record as `done`, `failed` or `interrupted`, with time and memory taken, and save."""
        self.content["status"] = status
        if reason:
            self.content["reason"] = reason
        self.content["provenance"] |= {
            "wall_s": round(self.elapsed(), 2),
            "peak_memory_mb": peak_memory_mb(),
        }
        if status != "done" or self._working == self.path:
            self.save()
            return
        working, self._working = self._working, self.path  # another process may be at the same `rerun.json`
        self.save()
        working.unlink(missing_ok=True)

    def save(self) -> None:
        """Write the file, whole or not at all."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(self._working, json.dumps(self.content, separators=(",", ":"), default=str) + "\n")


def finished(args: Namespace) -> Path | None:
    """Return the path of a record of this very run that is done; None if there is none."""
    path = results_folder(args) / "records" / args.run_id / "record.json"
    try:
        return path if _is_done(path) else None
    except OSError:  # a results folder of no use, which `check_writable` will say
        return None


def _is_done(path: Path) -> bool:
    try:
        return read_record(path)["status"] == "done"
    except (FileNotFoundError, ValueError):
        return False


def is_alive(record: dict[str, Any]) -> bool:
    """Whether the process that writes a running record is still there; taken for granted on another machine."""
    provenance = record["provenance"]
    if provenance["host"] != platform.node():
        return True
    try:
        os.kill(provenance["pid"], 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def read_record(path: Path) -> dict[str, Any]:
    """Read a record.

    Raises:
        ValueError: the file is no whole record of a schema known here; names it.
        FileNotFoundError: no such file.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{path} is corrupt: {error}") from error
    if not isinstance(content, dict) or content.get("schema") != SCHEMA or "status" not in content:
        raise ValueError(f"{path} is no record of schema {SCHEMA}")
    return content
