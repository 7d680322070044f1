"""A sweep: plan, run, skip, stale, failure and retry; and the launcher, which outlives its workers."""

import importlib
import io
import json
import os
import re
import sys
from pathlib import Path

import pytest
import yaml

from mammoth import records, results, settings, sweep
from mammoth.experiments import load_experiment
from mammoth.launchers import jobs, local, slurm
from mammoth.launchers.live import Live
from mammoth.sweep import main
from models.sgd import Sgd
from utils.metrics import average_accuracy

COMMON = {"dataset": "seq-digits", "n_iters": 2, "stop_after": 2, "threads": 1, "device": "cpu", "non_verbose": 1}


@pytest.fixture
def experiment(tmp_path):
    """Return a function that writes an experiment's file into a temporary folder; returns its path."""

    def written(*rows, **more):
        path = tmp_path / "table.yaml"
        common = {**COMMON, "base_path": str(tmp_path), **more.pop("common", {})}
        path.write_text(yaml.safe_dump({"title": "T", "seeds": 2, "common": common, "rows": list(rows), **more}, sort_keys=False))
        return str(path)

    return written


class Here:
    """A launcher that does runs in this process, one after the other."""

    width = 1
    lasting = False

    def __init__(self, ran):
        self.ran, self.waiting = ran, []

    @property
    def busy(self):
        return bool(self.waiting)

    def add(self, todo):
        self.waiting += todo

    def running(self):
        return {}

    def poll(self, timeout):
        if not self.waiting:
            return []
        job = self.waiting.pop(0)
        self.ran.append(job.argv)
        return [jobs.perform(job)]

    def notices(self):
        return []

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        self.waiting.clear()


@pytest.fixture
def here(monkeypatch):
    """Let sweeps run in this process; returns the list of the command lines that were run."""
    ran = []
    monkeypatch.setattr(sweep, "make_launcher", lambda asked, runs: Here(ran))
    monkeypatch.setattr(sweep, "_digests", {})
    return ran


def counts(capsys, path, *more):
    """How many runs of the experiment's first row stand in which state, as `status` prints it (zeros left out)."""
    capsys.readouterr()
    assert main(["status", path, *more]) == 0
    head, row = capsys.readouterr().out.splitlines()[:2]
    states = head.split()
    numbers = row.split()[-len(states) :]
    return {state: int(number) for state, number in zip(states, numbers, strict=True) if number != "0"}


SGD, JOINT = {"label": "SGD", "model": "sgd"}, {"label": "Joint", "model": "joint"}
BROKEN = {"label": "Broken", "model": "er", "lr": 1e30, "n_iters": 20}


# -- plan, run, skip -------------------------------------------------------------------------------------------------------


def planned(capsys, path, *more):
    """The lines of `plan` that are runs."""
    capsys.readouterr()
    assert main(["plan", path, *more]) == 0
    return [line for line in capsys.readouterr().out.splitlines() if "python main.py " in line]


def test_plan_resolves_everything_and_runs_nothing(experiment, here, capsys, tmp_path):
    """A line a run: its state and a command line that can be pasted."""
    lines = planned(capsys, experiment(SGD, JOINT))
    assert len(lines) == 4
    assert all(line.split()[0] == "missing" for line in lines)
    assert "python main.py --dataset seq-digits" in lines[0]
    assert lines[1].endswith("--model sgd --seed 1")
    assert here == []
    assert not (tmp_path / "results").exists()


def test_run_then_skip(experiment, here, capsys, tmp_path):
    """The first call runs all and writes a row each; the second runs nothing and leaves the rows as they are."""
    path = experiment(SGD, JOINT)
    assert main(["run", path]) == 0
    assert "4 runs, 0 skipped, 4 to do" in capsys.readouterr().out
    table = tmp_path / "results" / "table.csv"
    before = table.read_text()
    assert len(results.read_rows(table)) == 4
    assert main(["run", path]) == 0
    assert "4 runs, 4 skipped, 0 to do" in capsys.readouterr().out
    assert len(here) == 4
    assert table.read_text() == before


def test_rows_are_what_the_records_hold(experiment, here, tmp_path):
    """Matrix, seed, label and code of each row come from the run's record."""
    main(["run", experiment(SGD)])
    rows = results.read_rows(tmp_path / "results" / "table.csv")
    assert [(row["row"], row["column"], row["seed"]) for row in rows] == [("SGD", "-", "0"), ("SGD", "-", "1")]
    for row in rows:
        record = json.loads((tmp_path / "results" / "records" / row["run_id"] / "record.json").read_text())
        assert row["class_il"] == record["class_il"]
        assert row["source_digest"] == record["provenance"]["source_digest"]
        assert row["data"] == "original"
        newest = [sum(line[2 * k] + line[2 * k + 1] for line in counts) for k, counts in enumerate(record["confusion"])]
        totals = [sum(map(sum, counts)) for counts in record["confusion"]]
        assert row["newest_share"] == pytest.approx([100 * new / all_ for new, all_ in zip(newest, totals, strict=True)], abs=1e-3)


def test_two_cells_of_one_command_run_once(experiment, here, tmp_path, capsys):
    """The same run under two labels is done once, counts as one, and stands in both rows."""
    assert main(["run", experiment(SGD, {**SGD, "label": "again"}), "--seeds", "1"]) == 0
    out = capsys.readouterr().out
    assert "1 runs for 2 cells, 0 skipped, 1 to do" in out
    assert "[1/1]" in out
    assert len(here) == 1
    assert [row["row"] for row in results.read_rows(tmp_path / "results" / "table.csv")] == ["SGD", "again"]


def test_seeds_and_only_narrow_a_plan(experiment, here, capsys):
    """--seeds replaces the file's, --only keeps some methods or rows, --flags adds to every run."""
    path = experiment(SGD, {"label": "Er Ace", "model": "er_ace"})
    lines = planned(capsys, path, "--seeds", "3:5", "--only", "er-ace", "--flags", "--lr 0.5")
    assert [line.split("--model ")[1] for line in lines] == ["er_ace --lr 0.5 --seed 3", "er_ace --lr 0.5 --seed 4"]


def test_progress_names_result_and_time(experiment, here, capsys):
    """Each run's line: number, row, seed, ACC, and the time left."""
    main(["run", experiment(SGD), "--seeds", "1"])
    out = capsys.readouterr().out
    (run,) = sweep.plan(load_experiment(sweep.Path(experiment(SGD))), (0,))
    assert f"[1/1] SGD - seed 0: ACC {average_accuracy(run.record()['class_il']):.2f} %" in out
    assert "left" in out


# -- stale, failed, retry ----------------------------------------------------------------------------------------------------


def test_a_record_of_other_code_is_stale(experiment, here, monkeypatch, capsys):
    """When the code's digest changes, `plan` shows it and `run` runs it anew."""
    path = experiment(SGD)
    main(["run", path])
    monkeypatch.setattr(sweep, "digest_for", lambda args: "other")
    assert [line.split()[0] for line in planned(capsys, path)] == ["stale", "stale"]
    assert counts(capsys, path) == {"stale": 2}
    main(["run", path])
    assert len(here) == 4


def test_a_failing_cell_is_named_and_the_others_finish(experiment, here, capsys, tmp_path):
    """Status 1; stderr names row and seed and why; every other run is done and has its row."""
    assert main(["run", experiment(BROKEN, SGD), "--seeds", "1"]) == 1
    out, err = capsys.readouterr()
    assert err.count("failed: ") == 1
    assert "Broken" in err
    assert "seed 0" in err
    assert "not finite" in err
    assert [row["row"] for row in results.read_rows(tmp_path / "results" / "table.csv")] == ["SGD"]
    assert "Broken - seed 0: failed" in out


def test_retry_runs_what_failed_and_nothing_else(experiment, here, capsys, monkeypatch):
    """`retry` takes up failed and interrupted runs, not missing ones."""
    path = experiment(SGD)
    original = Sgd.observe

    def interrupted(self, *batch, **fields):
        raise KeyboardInterrupt

    monkeypatch.setattr(Sgd, "observe", interrupted)
    assert main(["run", path, "--seeds", "1"]) == 1
    monkeypatch.setattr(Sgd, "observe", original)
    assert counts(capsys, path) == {"interrupted": 1, "missing": 1}
    assert main(["retry", path]) == 0
    assert [argv[-1] for argv in here] == ["0", "0"]
    assert counts(capsys, path) == {"done": 1, "missing": 1}


def test_a_corrupt_record_counts_as_missing(experiment, here, tmp_path):
    """A record that was cut off is run again."""
    path = experiment(SGD)
    main(["run", path, "--seeds", "1"])
    (record,) = tmp_path.glob("results/records/*/record.json")
    record.write_text(record.read_text()[:100])
    assert main(["run", path, "--seeds", "1"]) == 0
    assert len(here) == 2
    assert json.loads(record.read_text())["status"] == "done"


def test_collect_brings_rows_together_without_running(experiment, here, tmp_path):
    """A lost CSV file is rebuilt from the records."""
    path = experiment(SGD)
    main(["run", path])
    table = tmp_path / "results" / "table.csv"
    before = table.read_text()
    table.unlink()
    assert main(["collect", path]) == 0
    assert table.read_text() == before
    assert len(here) == 2


# -- wrong input -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["plan", "nowhere.yaml"], "nowhere.yaml"),
        (["plan"], "experiment"),
        (["plna", "{path}"], "plna"),
        (["run", "{path}", "--seeds", "x"], "seeds"),
        (["run", "{path}", "--seeds", "0"], "seeds"),
        (["run", "{path}", "--jobs", "-1"], "jobs"),
        (["run", "{path}", "--only", "derp"], "derp"),
        (["run", "{path}", "--flags", "--lrr 1"], "--lrr"),
        (["run", "{path}", "--flag", "1"], "--flag"),
    ],
)
def test_wrong_input_ends_with_two(words, says, experiment, here, capsys):
    """Status 2 and a line that names what was wrong; nothing runs."""
    path = experiment(SGD)
    assert main([word.format(path=path) for word in words]) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert says in err
    assert len(err.splitlines()) <= 2
    assert here == []


@pytest.mark.parametrize("module", ["mammoth.sweep", "mammoth.report.__main__"])
def test_help_is_of_this_command(module, capsys):
    """The usage line shows this command's own arguments, not those of main.py."""
    with pytest.raises(SystemExit) as ended:
        importlib.import_module(module).main(["--help"])
    assert ended.value.code == 0
    usage = capsys.readouterr().out.split("\n\n")[0]
    assert "experiment" in usage.lower()
    assert "--dataset_config" not in usage


# -- the launcher ------------------------------------------------------------------------------------------------------------

WORKER = """
import os, signal, sys, time
from mammoth.launchers.jobs import Outcome
from mammoth.launchers.worker import serve

def perform(job, device=""):
    kind, tried = job.argv[0], job.log.with_suffix(".tried")
    if kind == "killed" or (kind == "once" and not tried.exists()):
        tried.write_text("")
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == "raises":
        raise ValueError("a bug")
    if kind == "no disk":
        raise OSError(28, "No space left on device")
    time.sleep(0.05)
    return Outcome(job.argv, 0, os.environ.get("OMP_NUM_THREADS", "unset"))

sys.exit(serve(int(sys.argv[1]), sys.argv[2], perform))
"""


@pytest.fixture
def launch(tmp_path):
    """Return a function that runs jobs, named by what they do, through the real launcher; returns outcomes by job."""
    script = tmp_path / "launched_worker.py"
    script.write_text(WORKER)

    def launched(*kinds, workers=2):
        todo = [((kind, str(number)), tmp_path / str(number) / "log.txt") for number, kind in enumerate(kinds)]
        outcomes = list(local.run_all(todo, workers, command=(sys.executable, str(script))))
        assert sorted(outcome.argv for outcome in outcomes) == sorted(argv for argv, _ in todo)
        return {outcome.argv: outcome for outcome in outcomes}

    return launched


def test_a_worker_killed_twice_fails_its_own_run_only(launch):
    """One run kills its process whenever it is tried; the four beside it are all done."""
    outcomes = launch("fine", "killed", "fine", "fine", "fine")
    assert {argv: outcome.status for argv, outcome in outcomes.items() if argv[0] == "fine"} == {("fine", n): 0 for n in "0234"}
    assert outcomes["killed", "1"].status == 1
    assert "killed" in outcomes["killed", "1"].message


def test_a_worker_killed_once_is_tried_again(launch):
    """A run that survives the second time is done."""
    assert {outcome.status for outcome in launch("once", "fine", "fine").values()} == {0}


def test_a_run_that_raises_is_a_failure_not_an_end(launch):
    """Whatever escapes from a run fails that run; the rest go on."""
    outcomes = launch("raises", "fine", "no disk", workers=1)
    assert outcomes["fine", "1"].status == 0
    assert outcomes["raises", "0"].status == 1
    assert "a bug" in outcomes["raises", "0"].message
    assert "No space left" in outcomes["no disk", "2"].message


def test_runs_side_by_side_have_one_thread_each(launch, monkeypatch):
    """Two workers: one thread each, whatever the parent has; the parent's own environment stays."""
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    assert {outcome.message for outcome in launch("fine", "fine").values()} == {"1"}
    assert os.environ["OMP_NUM_THREADS"] == "7"


@pytest.mark.long
def test_a_real_sweep_with_a_failing_cell(experiment, capsys, tmp_path):
    """Real processes: the diverging run is named, the others are done, status 1; a second call runs the failed one alone."""
    path = experiment(BROKEN, SGD, JOINT)
    assert main(["run", path, "--jobs", "2", "--seeds", "1"]) == 1
    assert "failed: Broken" in capsys.readouterr().err
    assert {row["row"] for row in results.read_rows(tmp_path / "results" / "table.csv")} == {"SGD", "Joint"}
    assert main(["run", path, "--jobs", "2", "--seeds", "1"]) == 1
    assert "3 runs, 2 skipped, 1 to do" in capsys.readouterr().out


def test_a_real_process_runs_a_command_line(tmp_path):
    """`run_all` as it is: a worker runs the command line, its output goes to the log, the outcome has status and message."""
    words = ("--model", "sgd", "--debug_mode", "1", "--stop_after", "1", "--seed", "0", "--base_path", str(tmp_path))
    good = tmp_path / settings.resolve(list(words)).args.run_id
    todo = [(words, good / "log.txt"), (("--model", "sgdd"), tmp_path / "bad" / "log.txt")]
    log = good / "log.txt"
    good, bad = sorted(local.run_all(todo, 1), key=lambda outcome: outcome.status)
    assert good == local.Outcome(words, 0, "")
    assert "Accuracy for 1 task(s)" in log.read_text()
    assert bad.status == 2
    assert bad.message.startswith("error: ")
    assert "sgdd" in bad.message


def test_a_command_line_that_means_another_run_by_now_is_not_done(tmp_path):
    """A config was edited while the sweep ran: its record would lie where nobody looks for it."""
    words = ("--model", "sgd", "--debug_mode", "1", "--seed", "0", "--base_path", str(tmp_path))
    outcome = jobs.execute(words, tmp_path / "planned" / "log.txt")
    assert outcome.status == 2
    assert "means another run by now" in outcome.message
    assert "start the sweep again" in outcome.message
    assert not list(tmp_path.rglob("record.json"))


def test_what_fails_before_it_has_a_record_is_known_and_retried(experiment, here, capsys, monkeypatch):
    """Memory that runs out while the network is moved, or images that are gone: `status` and `retry` know of it."""
    path = experiment(SGD)
    with monkeypatch.context() as patch:
        patch.setattr(jobs, "execute", lambda argv, log, heading="": jobs.Outcome(argv, 1, "error: not enough memory"))
        assert main(["run", path]) == 1
    assert counts(capsys, path) == {"failed": 2}
    assert main(["retry", path]) == 0
    assert counts(capsys, path) == {"done": 2}


def test_a_run_by_other_code_than_the_sweeps_is_no_success(experiment, here, capsys, monkeypatch):
    """What ends well, but is stale once it is done, was made by code that was edited while the sweep ran."""
    path = experiment(SGD)
    monkeypatch.setattr(sweep, "digest_for", lambda args: "as the sweep began")
    assert main(["run", path]) == 1
    assert "something was edited while it ran; start the sweep again" in capsys.readouterr().err


@pytest.mark.parametrize("edited", [False, True])
def test_what_another_sweep_did_by_other_code(edited, experiment, here, capsys, monkeypatch, tmp_path):
    """Older code of the other sweep: done again. Newer code than this sweep has in memory: not, it would bring the old back."""
    runs = sweep.plan(load_experiment(Path(experiment(SGD, seeds=1))))
    following = sweep.Sweep(load_experiment(Path(experiment(SGD, seeds=1))), runs, Here(here), Live(io.StringIO()))
    monkeypatch.setattr(sweep, "look", lambda waiting: [(run, run.job(), "stale") for run in waiting])
    monkeypatch.setattr(records, "was_edited", lambda *classes: edited)
    following.start([], runs)
    following.finish()
    assert len(here) == (not edited)
    assert ["start the sweep again" in line for line in following.failed] == [True] * edited


def test_a_queue_that_does_not_answer_is_taken_to_hold_what_it_held(experiment, monkeypatch):
    """Else one squeue that fails would submit everything again."""
    runs = sweep.plan(load_experiment(Path(experiment(SGD))))
    runs[0].folder.mkdir(parents=True)
    (runs[0].folder / "queued").write_text("12_0 mammoth-ab")
    for listed, state in ((None, "queued"), ({"12_0 mammoth-ab": "None"}, "queued"), ({}, "missing")):
        monkeypatch.setattr(slurm, "queue", lambda listed=listed: listed)
        assert sweep.states_of(runs) == [state, "missing"]


# -- whose rows a table may hold -------------------------------------------------------------------------------------------------


@pytest.fixture
def er_alone(tmp_path):
    """Return (experiment's file, its rows' file, flags that leave the run what it is)."""
    path, rows = tmp_path / "alone.yaml", tmp_path / "rows.csv"
    path.write_text(
        f"seeds: 1\nresults: {rows}\ncommon: {{dataset: seq-digits, debug_mode: 1}}\nrows:\n  - {{label: ER, model: er}}\n",
        encoding="utf-8",
    )
    return path, rows, f"--base_path {tmp_path} --device cpu --threads 1"


def test_flags_that_make_another_run_leave_the_rows_alone(er_alone, capsys):
    """The very row stands, the sweep says so, and the other run has its record."""
    path, rows, flags = er_alone
    assert sweep.main(["run", str(path), "--jobs", "1", "--flags", flags]) == 0
    before = rows.read_text(encoding="utf-8")
    capsys.readouterr()
    assert sweep.main(["run", str(path), "--jobs", "1", "--flags", f"{flags} --lr 0.5"]) == 0
    assert "stay out of the table" in capsys.readouterr().out
    assert rows.read_text(encoding="utf-8") == before
    assert len(list((path.parent / "results" / "records").iterdir())) == 2


def test_a_row_whose_cell_has_changed_since_is_left_out(er_alone):
    """The label is the same, the run is not."""
    path, rows, flags = er_alone
    assert sweep.main(["run", str(path), "--jobs", "1", "--flags", flags]) == 0
    read = sweep.results.read_rows(rows)
    assert sweep.own_rows(sweep.load_experiment(path), read) == [{**row, "stale": False} for row in read]
    path.write_text(path.read_text(encoding="utf-8").replace("model: er}", "model: er, lr: 0.5}"), encoding="utf-8")
    assert sweep.own_rows(sweep.load_experiment(path), read) == []


def test_a_committed_row_counts_without_its_record(er_alone, tmp_path, monkeypatch):
    """On a fresh clone there are rows but no records: done with today's code, stale with another."""
    path, _, flags = er_alone
    assert sweep.main(["run", str(path), "--jobs", "1", "--flags", flags]) == 0
    elsewhere = ("--base_path", str(tmp_path / "clone"))
    (run,) = sweep.plan(sweep.load_experiment(path), extra=elsewhere)
    assert run.state() == "done"
    monkeypatch.setattr(sweep, "digest_for", lambda args: "other code")
    assert run.state() == "stale"


def test_rows_on_other_images_count_only_where_these_are_taken(er_alone, tmp_path):
    """A committed row, and a record, of recompressed images: done with --verify_data 0, to be run again where it insists."""
    path, rows, flags = er_alone
    assert sweep.main(["run", str(path), "--jobs", "1", "--flags", flags]) == 0
    sweep.results.write_rows(rows, [{**row, "data": "recompressed"} for row in sweep.results.read_rows(rows)])
    (file,) = tmp_path.glob("results/records/*/record.json")
    record = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps({**record, "data": {**record["data"], "kind": "recompressed"}}), encoding="utf-8")
    for base in (tmp_path, tmp_path / "clone"):
        for verified, state in (("1", "stale"), ("0", "done")):
            flags = ("--base_path", str(base), "--verify_data", verified)
            (run,) = sweep.plan(sweep.load_experiment(path), extra=flags)
            assert run.state() == state


def test_a_row_of_todays_code_counts_beside_a_record_of_older_code(er_alone, tmp_path):
    """It came with the commits of another machine; the old record neither makes it run again nor takes its place."""
    path, rows, flags = er_alone
    assert sweep.main(["run", str(path), "--jobs", "1", "--flags", flags]) == 0
    (file,) = tmp_path.glob("results/records/*/record.json")
    record = json.loads(file.read_text(encoding="utf-8"))
    old = {**record["provenance"], "source_digest": "older", "started": "2020-01-01T00:00:00"}
    file.write_text(json.dumps({**record, "provenance": old}), encoding="utf-8")
    before = rows.read_text(encoding="utf-8")
    experiment = sweep.load_experiment(path)
    runs = sweep.plan(experiment, extra=tuple(flags.split()))
    assert [run.state() for run in runs] == ["done"]
    sweep.collect(experiment, runs)
    assert rows.read_text(encoding="utf-8") == before


@pytest.mark.parametrize("flag", ["--only", "--columns"])
def test_each_name_of_a_choice_must_be_there(experiment, capsys, flag):
    """One slip among several names is an error, not fewer runs; a label with a comma is chosen as it stands."""
    path = experiment({"label": "ER, slow", "model": "er"}, SGD, columns=[{"label": "A, b"}, {"label": "C", "seed": None}])
    good, bad = {"--only": ("ER, slow", "sgd, er-aec"), "--columns": ("A, b", "C,A")}[flag]
    assert len(planned(capsys, path, flag, good)) == {"--only": 4, "--columns": 4}[flag]
    assert sweep.main(["plan", path, flag, bad]) == 2
    assert re.search(rf"{flag} (er-aec|A): no such label in table; (did you mean|there are)", capsys.readouterr().err)
