"""Rows, experiments and recorded variations made by hand for the tests of the report."""

from mammoth.experiments import Cell, Experiment
from mammoth.results import FIELDS
from mammoth.variation import EDGES


def row(label, seed, class_il, column="-", **more):
    """Return a row: everything but the matrices is the same."""
    fixed = {
        "dataset": "seq-digits", "data": "original", "fingerprint": "f00d", "commit": "abc123", "dirty": "True",
        "source_digest": "d1", "python": "3.11", "torch": "2.9", "device": "cpu: test", "threads": 1, "wall_s": 36.0,
        "started": "2025-01-01T00:00:00",
        "task_il": class_il, "newest_share": [1.5], "diagnostics": [], "run_id": f"run-{label}-{column}-{seed}",
    }  # fmt: skip
    return {**dict.fromkeys(FIELDS, ""), **fixed, "row": label, "column": column, "seed": seed, "class_il": class_il, **more}


def three_seeds(label, column="-", shift=0.0):
    """Return rows of three seeds: accuracy 90 after task 1; 60, 62, 64 after task 2, all plus `shift`."""
    return [row(label, seed, [[90.0 + shift], [50.0 + 4 * seed + shift, 70.0 + shift]], column) for seed in range(3)]


def experiment(*rows, columns=("-",), references=(), title="A title", name="made"):
    """Return an experiment of these rows and columns."""
    cells = tuple(Cell(row, column, ()) for row in rows for column in columns)
    return Experiment(name, title, (0, 1, 2), None, tuple(rows), tuple(columns), cells, references=references)


def variation(label, seed=0, tasks=5, column="-", layers=3, scale=1.0):
    """Return an entry of recorded variations; task k's layer means are k, 2k, ..., times `scale`."""
    counts = {name: [0] * (len(edges) + 1) for name, edges in EDGES.items()}
    for name in counts:
        counts[name][2], counts[name][5] = 100, 10
    counts["rr"][14] = 2  # 64 to 128 times the mean
    shares = {"below the mean": 0.7, "within one standard deviation": 0.9, "RS above 2": 0.05}
    described = [
        {
            **{name: {"counts": counts[name], "layer_means": [scale * k * (i + 1) for i in range(layers)]} for name in EDGES},
            "shares": shares,
        }
        for k in range(1, tasks + 1)
    ]
    names = [f"layer{i}" for i in range(layers)]
    content = {"layers": names, "sizes": [1] * layers, "edges": EDGES, "tasks": described}
    return {"row": label, "column": column, "seed": seed, "run_id": f"v-{label}-{seed}", "variation": content}
