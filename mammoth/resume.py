"""Checkpoints of a run's whole state, and runs that go on from one: `--savecheck`, `--resume`.

A run's checkpoints lie in `<checkpoint_path>/<run id>/`: `t002_s000000120.pt` is the state at step 120 of the run, in task 2
(counted from 0; at a task's end the next one's number); `last.pt` the state at its end. Each is enough to go on, bit for bit on
the CPU.

A method's state is its `state_dict()`, its attributes of class `Buffer`, and its plain attributes (`utils/attributes.py`). To go
on within a task, its `begin_task` is called on the restored state, for what it makes of that, and the state is then restored once
more over what `begin_task` changed.
"""

import json
import shlex
from argparse import Namespace
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from datasets import ContinualDataset
from datasets.utils.image_set import BatchLoader
from mammoth.fitting import EarlyStopping
from mammoth.interruption import Interrupted, StopRequest
from mammoth.records import Record
from mammoth.variation import VariationRecorder
from models import ContinualModel
from utils import randomness
from utils.attributes import put_back
from utils.buffer import Buffer
from utils.checkpoints import (
    checkpoint_path,
    load_checkpoint,
    load_method,
    load_network,
    load_weights,
    name_as_mammoth,
    save_checkpoint,
)
from utils.evaluate import evaluate_tasks
from utils.loggers import LOG, print_accuracies

COUNTERS = ("_current_task", "_task_iteration", "_epoch_iteration", "_n_past_classes", "_n_seen_classes", "_n_classes_current_task")
CARRIED = ("class_il", "task_il", "confusion", "diagnostics", "variation", "future")


def buffers_of(model: ContinualModel) -> dict[str, Buffer]:
    """Return a method's memories by attribute."""
    return {name: value for name, value in vars(model).items() if isinstance(value, Buffer)}


def method_state(model: ContinualModel) -> dict[str, Any]:
    """Return all that a method carries from step to step, the generators included."""
    memories = {name: buffer.state_dict() for name, buffer in buffers_of(model).items()}
    return {
        "model": model.state_dict(),
        "optimizer": model.opt.state_dict(),
        "buffer": memories.pop("buffer", None),
        "buffers": memories,
        "counters": {name: getattr(model, name) for name in COUNTERS},
        "generators": randomness.current().state_dict(),
        "global_generators": randomness.global_state(model.device),
    }


def restore_method(model: ContinualModel, state: dict[str, Any]) -> None:
    """Put back what `method_state` gave."""
    put_back(model, state)
    model.opt.load_state_dict(state["optimizer"])
    memories = state["buffers"] if state["buffer"] is None else {**state["buffers"], "buffer": state["buffer"]}
    for name, buffer in buffers_of(model).items():
        buffer.load_state_dict(memories[name])
    for name, value in state["counters"].items():
        setattr(model, name, value)
    randomness.current().load_state_dict(state["generators"], model.device)
    randomness.restore_global_state(state["global_generators"], model.device)


def find_checkpoint(args: Namespace) -> dict[str, Any] | None:
    """Return the checkpoint that `--resume` names; of `auto` the newest of the run that can be read, or None.

    Raises:
        ValueError: the file cannot be read, is no state to go on from, or is another run's.
    """
    if args.resume is None:
        return None
    if args.resume != "auto":
        return _of_this_run(Path(args.resume), args)
    folder = checkpoint_path(args).parent
    for path in newest_first(folder.glob("*.pt")):
        try:
            return _of_this_run(path, args)
        except ValueError as error:
            LOG.warning("%s; trying the checkpoint before it", error)
    LOG.info("--resume auto: no checkpoint in %s, starting at the first task", folder)
    return None


def newest_first(paths: Iterable[Path]) -> list[Path]:
    """Return files by the time at which they were written, the newest first; one that another process removes meanwhile last."""

    def written(path: Path) -> int:
        try:
            return path.stat().st_mtime_ns
        except FileNotFoundError:
            return 0

    return sorted(paths, key=written, reverse=True)


def _of_this_run(path: Path, args: Namespace) -> dict[str, Any]:
    content = load_checkpoint(path)
    if "progress" not in content:
        raise ValueError(f"{path} holds a trained model but no state to go on from; python -m mammoth.predict uses it")
    stored = content["args"].get("run_id")
    if stored != args.run_id:
        raise ValueError(f"{path} is of the run {stored}, and this command is {args.run_id}: give the same flags and --seed")
    LOG.info("going on from %s", path)
    return content


class Keeper:
    """Saves a run's state when that is due, and puts it back.

    Args:
        found: the checkpoint to go on from, or None.

    Raises:
        ValueError: that checkpoint was made by other code, from other data, or on another kind of device.
    """

    def __init__(
        self, model: ContinualModel, dataset: ContinualDataset, record: Record, stop: StopRequest, found: dict[str, Any] | None
    ) -> None:
        self.model, self.dataset, self.record, self.stop, self.found = model, dataset, record, stop, found
        self.recorder: VariationRecorder | None = None
        self.stopping: EarlyStopping | None = None
        self.scheduler: Any = None
        self.every = int(model.args.savecheck) if str(model.args.savecheck).isdigit() else 0
        self.steps = 0
        self.before: list[float] = []
        self.spent = {"train_s": 0.0, "evaluate_s": 0.0, "steps": 0}
        if found is not None:
            _check_same(found["record"], record)
        else:
            self._rows = self._load()

    @property
    def first_task(self) -> int:
        """The task to go on with."""
        return self.found["progress"]["task"] if self.found is not None else self._untrained

    @property
    def _untrained(self) -> int:
        """How many tasks are evaluated only (`--start_from`, `--inference_only`)."""
        args = self.model.args
        return self._tasks if args.inference_only else args.start_from or 0

    @property
    def _tasks(self) -> int:
        """How many tasks the run goes through."""
        tasks = self.dataset.n_training_tasks
        return min(tasks, self.model.args.stop_after or tasks)

    @property
    def within_task(self) -> bool:
        """Whether the run is to go on within a task and has not done so yet."""
        return self.found is not None and self.found["progress"]["loader"] is not None

    def restore(self) -> None:
        """Put back the state between two tasks; within a task, `enter_task` completes it."""
        if self.found is None:
            self._evaluate_untrained()
            return
        progress, earlier = self.found["progress"], self.found["record"]
        restore_method(self.model, self.found)
        self.steps, self.before, self.spent = progress["steps"], list(progress["before"]), dict(progress["spent"])
        self.record["provenance"].update({name: round(value, 2) for name, value in self.spent.items()})
        if self.recorder is not None:
            self.recorder.load_state_dict(self.found["variation"])
        self.record.update(**{name: earlier[name] for name in CARRIED if name in earlier})
        self.record.started -= progress.get("wall_s", 0.0)
        self.record["provenance"]["resumed_at"] = [*earlier["provenance"].get("resumed_at", []), self.steps]
        if not self.within_task:
            self.found = None

    def _load(self) -> dict[str, Any]:
        """Put what `--loadcheck` names into the method: its network; for tasks that are not trained, its state and memory too.

        Returns:
            What the file's record says of these tasks, if the file is a checkpoint of ours and `--start_from` goes on from it.
        """
        args, tasks = self.model.args, self._tasks
        if not args.inference_only and self._untrained >= tasks:
            raise ValueError(
                f"--start_from {self._untrained}: there are {tasks} tasks, from 0; --inference_only 1 trains none of them"
            )
        if args.loadcheck is None:
            return {}
        content = load_weights(Path(args.loadcheck))
        if self._untrained:
            load_method(self.model, content, args.loadcheck)
        else:
            load_network(self.model.net, content["model"], args.loadcheck)
        LOG.info("weights of %s", args.loadcheck)
        same = "record" in content and content["args"]["dataset"] == args.dataset
        rows = content["record"] if same and not args.inference_only else {}
        return rows if len(rows.get("class_il", [])) >= self._untrained else {}

    def _evaluate_untrained(self) -> None:
        """Put a stage for each task that is not trained into the record: the loaded file's, or an evaluation of what it holds."""
        model, dataset = self.model, self.dataset
        for task in range(self._untrained):
            dataset.c_task, model._current_task = task, task + 1
            first, past_last = dataset.training_range()
            model._n_past_classes, model._n_seen_classes, model._n_classes_current_task = first, past_last, past_last - first
            if self._rows:
                self.record.add_stage(*(self._rows[name][task] for name in ("class_il", "task_il", "confusion", "diagnostics")))
                continue
            found = evaluate_tasks(model, dataset, range(dataset.N_TASKS if dataset.joint else task + 1))
            print_accuracies(dataset.SETTING, found.class_il, found.task_il, joint=dataset.joint)
            self.record.add_stage(found.class_il, found.task_il, found.confusion, {})
        self.record["provenance"].update(self.spent)

    def enter_task(self, scheduler: Any, stopping: EarlyStopping | None = None) -> int | None:
        """After `begin_task`: put back the state within the task, and return the epoch that goes on; None at a task's beginning."""
        self.stopping, self.scheduler = stopping, scheduler
        if not self.within_task:
            return None
        found, self.found = self.found, None
        assert found is not None
        assert self.dataset.train_loader is not None
        restore_method(self.model, found)
        if scheduler is not None:
            scheduler.load_state_dict(found["scheduler"])
            vars(self.model.opt)["_opt_called"] = True  # else torch warns that no step came before the schedule's
        if stopping is not None:
            stopping.load_state_dict(found["stopping"])
        self.dataset.train_loader.load_state_dict(found["progress"]["loader"])
        return found["progress"]["epoch"]

    def after_step(self, epoch: int, scheduler: Any) -> None:
        """Save the state if it is due or the run is asked to stop. Raises Interrupted in the latter case."""
        self.steps += 1
        loader = self.dataset.train_loader
        stops = self.stop.number is not None
        if not isinstance(loader, BatchLoader):  # a loader of somebody else's does not say where it stands
            saved = None
        elif (self.every and self.steps % self.every == 0) or (stops and self.model.args.save_after_interrupt):
            saved = self._save(self.dataset.current_task, epoch, loader.state_dict(), scheduler)
        else:
            saved = None
        if stops:
            self._interrupt(saved)

    def after_task(self) -> None:
        """Save the state between two tasks if it is due or the run is asked to stop. Raises Interrupted in the latter case."""
        args, stops = self.model.args, self.stop.number is not None
        due = args.savecheck == "task" or (stops and args.save_after_interrupt)
        saved = self._save(self.dataset.current_task + 1, 0, None, self.scheduler) if due else None
        if saved is not None and args.savecheck == "task":
            self._name(saved, str(self.dataset.current_task))
        if stops:
            self._interrupt(saved)

    def at_end(self) -> None:
        """Save the run's last state if any is to be saved."""
        if self.model.args.savecheck:
            saved = self._save(self.dataset.current_task + 1, 0, None, self.scheduler, checkpoint_path(self.model.args))
            self._name(saved, "last")

    def _name(self, saved: Path, which: str) -> None:
        """Give a checkpoint Mammoth's name too; a joint run has one, whatever it is the state of."""
        name_as_mammoth(saved, "joint" if self.dataset.joint else which)

    def _interrupt(self, saved: Path | None) -> None:
        assert self.stop.number is not None
        how = f"go on with: {resume_command(self.record['command'], self.model.args.seed)}"
        raise Interrupted(self.stop.number, f"interrupted; the state is in {saved}\n{how}" if saved else None)

    def _save(self, task: int, epoch: int, loader: dict[str, Any] | None, scheduler: Any, path: Path | None = None) -> Path:
        args = self.model.args
        path = path or checkpoint_path(args).with_name(f"t{task:03}_s{self.steps:09}.pt")
        progress = {"task": task, "epoch": epoch, "steps": self.steps, "loader": loader}
        state = {
            **method_state(self.model),
            "scheduler": scheduler.state_dict() if scheduler is not None else None,
            "results": [self.record["class_il"], self.record["task_il"], {}],
            "stopping": self.stopping.state_dict() if self.stopping is not None else None,
            "variation": self.recorder.state_dict() if self.recorder is not None else None,
            "record": json.loads(json.dumps(self.record.content, default=str)),
            "progress": {**progress, "before": self.before, "spent": self.spent, "wall_s": self.record.elapsed()},
        }
        save_checkpoint(path, self.model, self.dataset, state)
        LOG.info("Saving checkpoint into: %s", path.parent.name)
        for old in newest_first(path.parent.glob("t*_s*.pt"))[args.keep_checkpoints :]:
            old.unlink(missing_ok=True)
        return path


def _check_same(earlier: dict[str, Any], record: Record) -> None:
    """Raise ValueError if a checkpoint's code, data or kind of device are not those at hand."""
    if earlier["data"]["fingerprint"] != record["data"]["fingerprint"]:
        raise ValueError("the checkpoint was made from other images than those on disk; start again without --resume")
    if earlier["provenance"]["source_digest"] != record["provenance"]["source_digest"]:
        raise ValueError("the checkpoint was made by other code; go back to that, or start again without --resume")
    before, now = (content["provenance"]["device"].split(":")[0] for content in (earlier, record))
    if before != now:  # their generators have nothing in common
        raise ValueError(f"the checkpoint was made on a {before}, and this is a {now}: give --device {before}, or start again")


def resume_command(command: list[str], seed: int) -> str:
    """Return the command line that goes on with a run: the same words, its seed, and `--resume auto`."""
    words = list(command)
    for place, word in enumerate(words):
        if word.split("=", 1)[0] == "--resume":
            del words[place : place + (1 if "=" in word else 2)]
            break
    given = any(word.split("=", 1)[0] == "--seed" for word in words)
    return shlex.join(["python", *words, *([] if given else ["--seed", str(seed)]), "--resume", "auto"])
