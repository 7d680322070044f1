"""Upstream's method files run here as they are."""

import json

import pytest

from tests.upstream.conftest import command_line

MEMORY = "--buffer_size 16 --minibatch_size 8"
REQUIRED = {
    "sgd": "",
    "er": MEMORY,
    "er_ace": MEMORY,
    "der": f"{MEMORY} --alpha 0.3",
    "derpp": f"{MEMORY} --alpha 0.3 --beta 0.5",
    "fdr": f"{MEMORY} --alpha 0.3",
    "agem": MEMORY,
    "agem_r": MEMORY,
    "si": "--c 0.5 --xi 1.0",
    "ewc_on": "--e_lambda 0.5 --gamma 1.0",
    "lwf_mc": "",
    "mer": f"{MEMORY} --beta 0.5 --gamma 0.5",
    "gdumb": f"{MEMORY} --fitting_epochs 2",
    "gem": MEMORY,
    "icarl": MEMORY,
    "bic": f"{MEMORY} --bic_epochs 2",
    "hal": MEMORY,
}
MORE = {  # docs/mammoth.md says why others do not run
    "gss": f"{MEMORY} --gss_minibatch_size 4",
    "lwf": "--alpha 0.5 --softmax_temp 2",
    "rpc": MEMORY,
    "joint": "",
    "joint_gcl": "",
    "xder_rpc": f"{MEMORY} --alpha 0.3 --beta 0.5",
    "xder_ce": f"{MEMORY} --alpha 0.3 --beta 0.5",
    "er_star": MEMORY,
    "er_ace_star": MEMORY,
    "derpp_star": f"{MEMORY} --alpha 0.3 --beta 0.5",
    "xder_rpc_star": f"{MEMORY} --alpha 0.3 --beta 0.5",
}


def run_file(model, flags, upstream, made, folder):
    """Run upstream's file for two tasks of five steps; return how the process ended."""
    paths = ["--models_path", str(upstream / "models"), "--datasets_path", str(made)]
    return command_line([*paths, "--model", model, "--dataset", "made", "--n_epochs", "1", *flags.split()], folder)


@pytest.mark.long
@pytest.mark.parametrize("model", [*REQUIRED, *MORE])
def test_an_upstream_file_runs_for_two_tasks(model, upstream, made, tmp_path):
    """Two tasks of five steps end with a record of finite accuracies, and the record's digest is of upstream's file."""
    if model == "gem":
        pytest.importorskip("quadprog", reason="upstream's gem needs `pip install quadprog`")
    ended = run_file(model, (REQUIRED | MORE)[model], upstream, made, tmp_path)
    assert ended.returncode == 0, ended.stderr[-2000:]
    record = json.loads(next(tmp_path.glob("results/records/*/record.json")).read_text())
    assert record["status"] == "done"
    assert [len(row) for row in record["class_il"]] == [1, 2]
    assert record["args"]["method_file"]


@pytest.mark.long
def test_upstreams_gem_without_its_package_is_refused_in_a_line(upstream, made, tmp_path, monkeypatch):
    """Status 2 and the file's own words, where quadprog cannot be imported."""
    (tmp_path / "quadprog.py").write_text("raise ImportError('not here')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    ended = run_file("gem", MEMORY, upstream, made, tmp_path)
    assert ended.returncode == 2
    assert ended.stderr.splitlines()[-2].startswith("error: the method gem cannot be built: Exception: GEM requires quadprog")
