"""The paper's claims, each tested on our runs.

A claim is one or more contrasts: a number for each seed that is above zero where the claim is right. Each contrast gets a two-sided
one-sample t-test over the seeds: for two methods run with the same seeds and images that is the paired t-test; against a number
that the paper cites, that number counts as exact. A claim whose contrasts all have a mean above zero *holds* when all are
significant, so its p is the largest of theirs; one with a mean below zero *does not hold* when such a contrast is significant, so
its p is the least of theirs, times the number of its contrasts (Bonferroni). Anything else is *undecided*. The level is 5 %, Holm's
correction over the claims.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mammoth.report.tables import MEASURES, markdown_line
from mammoth.report.targets import targets
from mammoth.results import Row

LEVEL = 0.05
SIMILAR = 3.0  # points of accuracy within which methods count as similar
Values = dict[tuple[int, str], float]  # by seed and images


@dataclass
class Evidence:
    """What claims are tested on: the rows and the recorded variations of each experiment, by its name."""

    rows: dict[str, list[Row]]
    variations: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def values(self, table: str, row: str, column: str, measure: str = "ACC", setting: str = "class_il") -> Values:
        """Return a cell's values by seed and images (two runs are a pair only if they saw the same)."""
        found: Values = {}
        for entry in self.rows.get(table, ()):
            if (entry["row"], entry["column"]) == (row, column):
                value = entry["newest_share"][-1] if measure == "bias" else MEASURES[measure](entry[setting])
                if value is not None:
                    found[int(entry["seed"]), f"{entry['dataset']} {entry['data']}"] = value
        return found

    def variation(self, table: str, row: str, statistic: Callable[[dict[str, Any]], float]) -> Values:
        """Return a statistic of the recorded variation by seed."""
        entries = [entry for entry in self.variations.get(table, ()) if entry["row"] == row]
        return {(int(entry["seed"]), ""): statistic(entry["variation"]) for entry in entries}


@dataclass(frozen=True)
class Contrast:
    """Numbers that are above zero where a claim is right, and how their mean is shown: `sign` times what it is above `base`.

    A sign of -1 shows a fall as the paper prints it; 0 shows nothing (the other side of an equivalence).
    """

    values: Callable[[Evidence], Values]
    sign: int = 1
    base: float = 0.0


def falling(contrast: Contrast) -> Contrast:
    """Return a contrast whose mean is shown with the other sign: the paper's figure is a fall."""
    return replace(contrast, sign=-contrast.sign)


@dataclass(frozen=True)
class Claim:
    """A claim of the paper: its words in ours, the figure that it gives, its contrasts, and the unit of ours."""

    name: str
    text: str
    paper: str
    contrasts: tuple[Contrast, ...]
    unit: str = "points"


@dataclass(frozen=True)
class Outcome:
    """What our runs say of a claim.

    `ours`: the mean of each contrast, as the paper's figure is given; `p`: what decides, Holm-corrected; None with fewer than two
    seeds.
    """

    claim: Claim
    ours: str
    n: int
    p: float | None
    verdict: str


# -- contrasts -------------------------------------------------------------------------------------------------------------------


def _paired(first: Values, second: Values, combine: Callable[[float, float], float]) -> Values:
    """Return a number for each pair, in the order of their keys: a set's order, and so a sum's last digit, changes by process."""
    return {key: combine(first[key], second[key]) for key in sorted(first.keys() & second.keys())}


def more(table: str, row: str, other: str, column: str, measure: str = "ACC", setting: str = "class_il") -> Contrast:
    """Return the contrast: `row` has more than `other`."""

    def contrast(evidence: Evidence) -> Values:
        places = [(table, name, column, measure, setting) for name in (row, other)]
        return _paired(evidence.values(*places[0]), evidence.values(*places[1]), lambda a, b: a - b)

    return Contrast(contrast)


def less(table: str, row: str, other: str, column: str, measure: str = "FR", setting: str = "class_il") -> Contrast:
    """Return the contrast: `row` has less than `other`."""
    return more(table, other, row, column, measure, setting)


def gain(table: str, row: str, other: str, columns: Sequence[str]) -> Contrast:
    """Return the contrast: the mean over columns of `row`'s ACC relative to `other`'s, in percent above it."""

    def contrast(evidence: Evidence) -> Values:
        pairs = [(evidence.values(table, row, column), evidence.values(table, other, column)) for column in columns]
        by_column = [_paired(ours, theirs, lambda a, b: 100 * (a / b - 1)) for ours, theirs in pairs]
        keys = set.intersection(*(set(values) for values in by_column))
        return {key: sum(values[key] for values in by_column) / len(columns) for key in sorted(keys)}

    return Contrast(contrast)


def share_of(table: str, row: str, other: str, column: str, share: float) -> Contrast:
    """Return the contrast: `row`'s ACC is at least this percentage of `other`'s, seed by seed."""

    def contrast(evidence: Evidence) -> Values:
        ours, theirs = evidence.values(table, row, column), evidence.values(table, other, column)
        return _paired(ours, theirs, lambda a, b: 100 * a / b - share)

    return Contrast(contrast)


def above_cited(table: str, row: str, other: str, column: str, setting: str) -> Contrast:
    """Return the contrast: `row`'s ACC exceeds the number that the paper cites for `other`, which counts as exact."""
    cited = targets()[(table, other, column, setting, "ACC")].mean
    return Contrast(lambda evidence: {k: v - cited for k, v in evidence.values(table, row, column, "ACC", setting).items()})


def similar(table: str, row: str, other: str, column: str) -> tuple[Contrast, Contrast]:
    """Return both contrasts of an equivalence test: the difference in ACC is above -SIMILAR and below SIMILAR."""
    return _near_zero(more(table, row, other, column))


def near_cited(table: str, row: str, other: str, column: str, setting: str) -> tuple[Contrast, Contrast]:
    """Return both contrasts of an equivalence test against a number that the paper cites."""
    return _near_zero(above_cited(table, row, other, column, setting))


def _near_zero(difference: Contrast) -> tuple[Contrast, Contrast]:
    return (
        Contrast(lambda evidence: {key: SIMILAR + value for key, value in difference.values(evidence).items()}, 1, SIMILAR),
        Contrast(lambda evidence: {key: SIMILAR - value for key, value in difference.values(evidence).items()}, 0),
    )


def varies(row: str, statistic: Callable[[dict[str, Any]], float], table: str = "variation") -> Contrast:
    """Return the contrast: a statistic of the recorded variation is above zero."""
    return Contrast(lambda evidence: evidence.variation(table, row, statistic))


def _worst_share(name: str, sign: int, bound: float) -> Callable[[dict[str, Any]], float]:
    """Return a statistic: the least, over tasks 1-4, of sign * (share - bound) in percent."""
    return lambda variation: min(sign * (100 * task["shares"][name] - bound) for task in variation["tasks"][:4])


def _largest(variation: dict[str, Any]) -> float:
    return max(task["rr"]["largest"] for task in variation["tasks"][:4]) - 64


def _output_above_others(variation: dict[str, Any]) -> float:
    """Least excess, over tasks 1-4, of the last layer's mean relative change over the largest of the layers before it."""
    means = [task["rr"]["layer_means"] for task in variation["tasks"][:4]]
    return min(layers[-1] - max(layers[:-1]) for layers in means)


def _output_falls(variation: dict[str, Any]) -> float:
    """Fall of the last layer's mean relative change from the first task recorded to the last but four (1 to 16 of 20)."""
    tasks = variation["tasks"]
    return tasks[0]["rr"]["layer_means"][-1] - tasks[-5 if len(tasks) >= 20 else -1]["rr"]["layer_means"][-1]


# -- the claims ------------------------------------------------------------------------------------------------------------------

SHORT, LONG, OFFLINE = "table_short", "table_long", "table_offline"
PLAIN, FULL = "PVBF w/o D-CWR", "PVBF"
SIZES = ("MS=20", "MS=100", "MS=500")
RIVALS = ("ER", "iCaRL", "MIR", "DER++", "ER-ACE", "AR1*")
LONG_SETS = ("CIFAR-100", "MiniImageNet")


def _arm(name: str) -> tuple[Contrast, Contrast]:
    arm = f"PVBF w/o {name}"
    return falling(more("ablation", FULL, arm, "MS=500")), less("ablation", FULL, arm, "MS=500")


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "short-gain",
        "PVBF's ACC exceeds ER's on short sequences, on average over MS 20, 100, 500",
        "39.2 %",
        (gain(SHORT, FULL, "ER", SIZES),),
        "%",
    ),
    Claim("cifar100-gain", "PVBF without D-CWR exceeds ER on CIFAR-100", "47 %", (gain(LONG, PLAIN, "ER", ["CIFAR-100"]),), "%"),
    Claim("mini-gain", "PVBF without D-CWR exceeds ER on MiniImageNet", "31 %", (gain(LONG, PLAIN, "ER", ["MiniImageNet"]),), "%"),
    Claim(
        "mini-iid",
        "PVBF without D-CWR reaches 97.5 % of IID's ACC on MiniImageNet",
        "97.5 %",
        (share_of(LONG, PLAIN, "IID", "MiniImageNet", 97.5),),
        "% above 97.5",
    ),
    Claim(
        "lowest-fr",
        "PVBF has the lowest FR at MS 20 and 100",
        "24.0, 18.1",
        tuple(falling(less(SHORT, FULL, rival, size)) for size in SIZES[:2] for rival in (*RIVALS, PLAIN)),
    ),
    Claim(
        "ec-acc",
        "PVBF without D-CWR is above ER-ACE in ACC at MS 20 and 500",
        "+0.2, +1.5",
        tuple(more(SHORT, PLAIN, "ER-ACE", size) for size in (SIZES[0], SIZES[2])),
    ),
    Claim(
        "ec-fr",
        "PVBF without D-CWR is below ER-ACE in FR at MS 20, 100 and 500",
        "-2.2, -1.0, -2.4",
        tuple(falling(less(SHORT, PLAIN, "ER-ACE", size)) for size in SIZES),
    ),
    Claim("arm-ec", "Without E&C, ACC falls and FR rises", "-3.3, +2.7", _arm("E&C")),
    Claim("arm-dcwr", "Without D-CWR, ACC falls and FR rises", "-4.4, +2.1", _arm("D-CWR")),
    Claim("arm-ace", "Without ACE, ACC falls and FR rises", "-7.9, +31.2", _arm("ACE")),
    Claim(
        "long-first",
        "PVBF without D-CWR has the highest ACC on both long sequences",
        "25.8, 23.7",
        tuple(more(LONG, PLAIN, rival, data) for data in LONG_SETS for rival in (*RIVALS, FULL)),
    ),
    Claim(
        "dcwr-short",
        "D-CWR raises ACC on CIFAR-10 at MS 20, 100 and 500",
        "+3.3, +3.7, +4.4",
        tuple(more(SHORT, FULL, PLAIN, size) for size in SIZES),
    ),
    Claim(
        "dcwr-long",
        "D-CWR lowers ACC on both long sequences",
        "-4.1, -2.8",
        tuple(falling(more(LONG, PLAIN, FULL, data)) for data in LONG_SETS),
    ),
    Claim(
        "ar1-long",
        "AR1* is below ER on both long sequences",
        "-2.9, -2.4",
        tuple(falling(more(LONG, "ER", "AR1*", data)) for data in LONG_SETS),
    ),
    Claim(
        "output-falls",
        "The output layer's relative change falls from task 1 to task 16 (Fig. 7)",
        "falls",
        (varies(FULL, _output_falls),),
        "times the mean",
    ),
    Claim(
        "offline-class",
        "Offline Class-IL: PVBF has the highest ACC at MS 200",
        "65.27",
        (more(OFFLINE, FULL, "ER-ACE", "MS=200"), above_cited(OFFLINE, FULL, "DER++", "MS=200", "class_il")),
    ),
    Claim(
        "offline-task",
        "Offline Task-IL: PVBF has the highest ACC at MS 200 and 500",
        "93.96, 95.62",
        tuple(
            c
            for size in ("MS=200", "MS=500")
            for c in (more(OFFLINE, FULL, "ER-ACE", size, "ACC", "task_il"), above_cited(OFFLINE, FULL, "DER++", size, "task_il"))
        ),
    ),
    Claim(
        "offline-5120",
        "Offline Class-IL at MS 5120: ER-ACE and PVBF are near ER",
        "+0.5, +0.9",
        (*near_cited(OFFLINE, "ER-ACE", "ER", "MS=5120", "class_il"), *near_cited(OFFLINE, FULL, "ER", "MS=5120", "class_il")),
    ),
    Claim(
        "scales-short",
        "RR, ZS and RS are similar on CIFAR-10 (they give the same C: their spread is noise)",
        "-0.2, -2.9",
        tuple(c for other in ("PVBF-ZS", "PVBF-RS") for c in similar("standardization", other, "PVBF-RR", "MS=500")),
    ),
    Claim(
        "below-mean",
        "Over 65 % of the parameters change less than the mean (Fig. 2)",
        "> 65 %",
        (varies("ER", _worst_share("below the mean", 1, 65.0)),),
        "% above 65",
    ),
    Claim(
        "above-64",
        "Some parameters change more than 64 times the mean (Fig. 2)",
        "> 64",
        (varies("ER", _largest),),
        "times the mean above 64",
    ),
    Claim(
        "output-high",
        "The output layer changes more than every layer before it (Fig. 3)",
        "higher",
        (varies("ER", _output_above_others),),
        "times the mean",
    ),
    Claim(
        "zs-below",
        "ZS: 66 to 68 % of the parameters are below the mean",
        "66-68 %",
        (varies("ER", _worst_share("below the mean", 1, 66.0)), varies("ER", _worst_share("below the mean", -1, 68.0))),
        "% inside",
    ),
    Claim(
        "zs-sigma",
        "ZS: over 90 % are within one standard deviation",
        "> 90 %",
        (varies("ER", _worst_share("within one standard deviation", 1, 90.0)),),
        "% above 90",
    ),
    Claim("rs-two", "RS: under 7 % are above 2", "< 7 %", (varies("ER", _worst_share("RS above 2", -1, 7.0)),), "% below 7"),
    Claim(
        "bias",
        "Fewer test images are taken for the newest task by PVBF than by ER (MS 500)",
        "less",
        (falling(less(SHORT, FULL, "ER", "MS=500", "bias")),),
    ),
)


# -- tests -----------------------------------------------------------------------------------------------------------------------


def t_test(values: Sequence[float]) -> float | None:
    """Return the two-sided p of a one-sample t-test against zero; None with fewer than two values."""
    n = len(values)
    if n < 2:
        return None
    mean = sum(values) / n
    deviation = math.sqrt(sum((value - mean) ** 2 for value in values) / (n - 1))
    if deviation == 0:
        return 1.0 if mean == 0 else 0.0
    from scipy.special import stdtr  # scipy.stats takes a second to import

    return float(2 * stdtr(n - 1, -abs(mean) / (deviation / math.sqrt(n))))


def holm(ps: Sequence[float | None]) -> list[float | None]:
    """Return Holm's corrected p-values, in place; None where there is no test."""
    tested = sorted((p, place) for place, p in enumerate(ps) if p is not None)
    corrected: list[float | None] = [None] * len(ps)
    least = 0.0
    for rank, (p, place) in enumerate(tested):
        least = max(least, min(1.0, (len(tested) - rank) * p))
        corrected[place] = least
    return corrected


def judge(evidence: Evidence, claims: Sequence[Claim] = CLAIMS) -> list[Outcome]:
    """Test every claim on what there is."""
    found = [[contrast.values(evidence) for contrast in claim.contrasts] for claim in claims]
    corrected = holm([_deciding_p(contrasts) for contrasts in found])
    return [_outcome(claim, values, p) for claim, values, p in zip(claims, found, corrected, strict=True)]


def _mean(values: Values) -> float:
    return sum(values.values()) / len(values)


def _deciding_p(contrasts: Sequence[Values]) -> float | None:
    """Return the p by which a claim holds, or, where one of its contrasts has a mean below zero, does not hold."""
    if not all(contrasts):
        return None
    against = [values for values in contrasts if _mean(values) < 0]
    ps = [t_test(list(values.values())) for values in against or contrasts]
    known = [p for p in ps if p is not None]
    if against:
        return min(1.0, len(contrasts) * min(known)) if known else None
    return max(known) if len(known) == len(ps) else None


def _outcome(claim: Claim, contrasts: Sequence[Values], p: float | None) -> Outcome:
    n = min(len(values) for values in contrasts)
    if n == 0:
        return Outcome(claim, "–", 0, None, "not run")
    means = [_mean(values) for values in contrasts]
    shown = [how.sign * (mean - how.base) for how, mean in zip(claim.contrasts, means, strict=True) if how.sign]
    ours = ", ".join(f"{mean:+.1f}" for mean in shown) + f" {claim.unit}"
    if p is None or p >= LEVEL:
        return Outcome(claim, ours, n, p, f"undecided ({n})")
    return Outcome(claim, ours, n, p, "does not hold" if min(means) < 0 else "holds")


def markdown(outcomes: Sequence[Outcome]) -> str:
    """Return the claims as a Markdown table, after a line that counts them by verdict."""
    verdicts = Counter(outcome.verdict.split(" (")[0] for outcome in outcomes)
    count = ", ".join(f"{number} {verdict}" for verdict, number in verdicts.most_common())
    lines = [f"{len(outcomes)} claims: {count}.", ""]
    lines += ["| claim | paper | ours | n | p (Holm) | verdict |", "|---|---|---|---|---|---|"]
    for outcome in outcomes:
        p = "–" if outcome.p is None else f"{outcome.p:.3f}"
        words = (outcome.claim.text, outcome.claim.paper, outcome.ours, str(outcome.n), p, outcome.verdict)
        lines.append(markdown_line(words))
    return "\n".join(lines)
