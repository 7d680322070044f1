"""Runs from one's own script: the same as from the command line; and Mammoth's logs.pyd."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import mammoth

ROOT = Path(__file__).parents[2]
FLAGS = {"seed": 0, "n_iters": 5, "stop_after": 2, "non_verbose": True, "device": "cpu"}


def test_a_run_from_a_script_equals_the_command_lines(go, tmp_path):
    """Same flags, same accuracies, same name."""
    method, dataset = mammoth.load_runner("er", "seq-digits", {**FLAGS, "buffer_size": 50, "base_path": tmp_path})
    found = mammoth.train(method, dataset)
    expected = go(*"--model er --dataset seq-digits --n_iters 5 --stop_after 2 --buffer_size 50".split())
    assert found["status"] == "done"
    assert found["class_il"] == expected["class_il"]
    assert found["run_id"] == expected["run_id"]


def test_a_wrong_flag_is_a_value_error():
    """As on the command line."""
    with pytest.raises(ValueError, match="unknown flag --buffr_size"):
        mammoth.load_runner("er", "seq-digits", {"buffr_size": 50})


def test_the_flags_of_a_method_can_be_listed():
    """With help and default."""
    required, optional = mammoth.get_avail_args(dataset="seq-digits", model="pvbf")
    assert "pvbf_alpha" in optional
    assert optional["pvbf_alpha"]["default"] == 0.5
    assert all(entry["description"] for entry in (required | optional).values())


def test_importing_the_package_is_cheap_and_all_names_are_there():
    """torch comes only when a name is asked for."""
    code = "import sys, mammoth; assert 'torch' not in sys.modules; print(*[getattr(mammoth, n).__name__ for n in mammoth._WHERE])"
    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert found.stdout.split() == list(mammoth._WHERE)
    with pytest.raises(AttributeError, match="it offers"):
        _ = mammoth.absent


def test_logs_pyd_has_a_readable_line_a_run(go, tmp_path):
    """`ast.literal_eval` reads it (upstream's defect D17); class-IL and task-IL; none with --disable_log."""
    words = "--model er_ace --dataset seq-digits --n_iters 5 --stop_after 2 --buffer_size 50".split()
    record = go(*words)
    go(*words, "--seed", "1")
    go(*words, "--seed", "2", "--disable_log", "1")
    lines = (tmp_path / "results/class-il/seq-digits/er_ace/logs.pyd").read_text().splitlines()
    first = ast.literal_eval(lines[0])
    assert len(lines) == 2
    assert first["accmean_task2"] == pytest.approx(sum(record["class_il"][1]) / 2)
    assert first["accuracy_1_task2"] == record["class_il"][1][0]
    assert {"forgetting", "backward_transfer", "conf_git_hash", "conf_host", "lr"} <= first.keys()
    masked = ast.literal_eval((tmp_path / "results/task-il/seq-digits/er_ace/logs.pyd").read_text().splitlines()[0])
    assert masked["accuracy_1_task2"] == record["task_il"][1][0]


def test_the_example_of_the_page_runs(tmp_path):
    """docs/library.md's script, as printed, in an empty folder."""
    script = re.search(r"```python\n(.*?)```", (ROOT / "docs" / "library.md").read_text(), re.S).group(1)
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1"}
    ended = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False, env=environment
    )
    assert ended.returncode == 0, ended.stderr[-1500:]
    assert re.search(r"ACC \d+\.\d", ended.stdout)
