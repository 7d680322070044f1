"""Claims on hand-made rows: each verdict, the paired test, Holm's correction."""

import pytest
from scipy import stats

from mammoth.report import claims
from mammoth.report.claims import CLAIMS, Claim, Evidence, holm, judge, less, more, similar, t_test


def rows(table_row, accuracies, column="MS=500", fall=10.0, share=30.0, data="original"):
    """Return rows of two tasks with the given final ACC by seed, and a fixed fall of task 1."""
    return [
        {
            "row": table_row,
            "column": column,
            "seed": str(seed),
            "dataset": "seq-cifar10",
            "data": data,
            "class_il": [[value + fall], [value, value]],
            "task_il": [[90.0], [90.0, 90.0]],
            "newest_share": [50.0, share],
        }
        for seed, value in enumerate(accuracies)
    ]


def claim(*contrasts):
    return Claim("c", "text", "paper", contrasts)


def test_t_test_equals_scipys():
    """The paired test is scipy's one-sample test on the differences."""
    values = [1.2, 0.4, 2.2, -0.3, 0.9]
    assert t_test(values) == pytest.approx(stats.ttest_1samp(values, 0.0).pvalue, rel=1e-12)
    assert t_test([1.0]) is None
    assert t_test([1.0, 1.0]) == 0.0
    assert t_test([0.0, 0.0]) == 1.0


def test_holm_by_hand():
    """p = .01, .04, .03 and an untested one: .03, .06, .06."""
    assert holm([0.01, 0.04, None, 0.03]) == pytest.approx([0.03, 0.06, None, 0.06])


def test_differences_are_paired_by_seed():
    """Seed noise that both methods share does not blur their difference."""
    noise = [0.0, 8.0, -7.0, 3.0, 12.0]
    evidence = Evidence({"t": rows("A", [50 + n for n in noise]) + rows("B", [48.9 + n * 1.01 for n in noise])})
    (outcome,) = judge(evidence, [claim(more("t", "A", "B", "MS=500"))])
    assert outcome.verdict == "holds"
    assert outcome.n == 5


def test_only_seeds_that_both_have_count():
    """A seed that one method lacks is left out."""
    evidence = Evidence({"t": rows("A", [50.0, 51.0, 52.0]) + rows("B", [40.0, 41.0])})
    assert judge(evidence, [claim(more("t", "A", "B", "MS=500"))])[0].n == 2


def test_runs_on_different_images_are_no_pair():
    """The same seeds, but original images here and recompressed ones there."""
    evidence = Evidence({"t": rows("A", [50.0, 51.0, 52.0]) + rows("B", [40.0, 41.0, 42.0], data="recompressed")})
    assert judge(evidence, [claim(more("t", "A", "B", "MS=500"))])[0].verdict == "not run"


def test_the_p_that_decides_is_shown():
    """One contrast of two reversed: p is its own, twice for the two contrasts; Holm for two claims doubles the least."""
    wrong, chance = [40.0, 41.0, 40.5, 40.2, 40.8], [60.0, 61.5, 60.1, 60.2, 60.9]
    table = rows("A", wrong) + rows("B", [60.0, 61.2, 60.4, 60.1, 60.9]) + rows("C", [39.9, 41.2, 40.3, 40.3, 40.6])
    table += rows("D", chance) + rows("E", [60.3, 61.2, 60.1, 60.5, 60.6])
    first = claim(more("t", "A", "B", "MS=500"), more("t", "A", "C", "MS=500"))
    outcomes = judge(Evidence({"t": table}), [first, claim(more("t", "D", "E", "MS=500"))])
    expected = stats.ttest_rel(wrong, [60.0, 61.2, 60.4, 60.1, 60.9]).pvalue
    assert outcomes[0].p == pytest.approx(2 * 2 * expected, rel=1e-9)
    assert [outcome.verdict for outcome in outcomes] == ["does not hold", "undecided (5)"]


def test_a_share_of_a_reference_has_the_references_spread():
    """IID's runs scatter too: its ACC is paired seed by seed, and a single one decides nothing."""
    contrast = claims.share_of("t", "A", "IID", "MS=500", 97.5)
    table = rows("A", [24.0, 24.2, 24.1, 23.9, 24.3])
    assert judge(Evidence({"t": table + rows("IID", [22.5])}), [claim(contrast)])[0].verdict == "undecided (1)"
    outcome = judge(Evidence({"t": table + rows("IID", [20.0, 30.0, 18.0, 26.0, 19.0])}), [claim(contrast)])[0]
    assert outcome.verdict == "undecided (5)"


def test_a_claim_that_is_wrong_does_not_hold():
    """Significantly below zero."""
    evidence = Evidence({"t": rows("A", [40.0, 41.0, 40.5, 40.2, 40.8]) + rows("B", [60.0, 61.2, 60.4, 60.1, 60.9])})
    assert judge(evidence, [claim(more("t", "A", "B", "MS=500"))])[0].verdict == "does not hold"


def test_one_weak_contrast_leaves_a_claim_undecided():
    """All contrasts must be significant."""
    evidence = Evidence({"t": rows("A", [60.0, 61.0, 60.5]) + rows("B", [40.0, 41.1, 40.4]) + rows("C", [59.0, 62.0, 60.4])})
    contrasts = (more("t", "A", "B", "MS=500"), more("t", "A", "C", "MS=500"))
    assert judge(evidence, [claim(*contrasts)])[0].verdict == "undecided (3)"


def test_one_seed_is_undecided_and_none_is_not_run():
    """Single seeds decide nothing."""
    one = Evidence({"t": rows("A", [50.0]) + rows("B", [40.0])})
    assert judge(one, [claim(more("t", "A", "B", "MS=500"))])[0].verdict == "undecided (1)"
    assert judge(Evidence({}), [claim(more("t", "A", "B", "MS=500"))])[0].verdict == "not run"


def test_less_is_about_forgetting_by_default():
    """FR 5 against 10: less holds."""
    evidence = Evidence({"t": rows("A", [50.0, 51.0, 53.0], fall=5.0) + rows("B", [50.0, 52.0, 51.0], fall=10.0)})
    assert judge(evidence, [claim(less("t", "A", "B", "MS=500"))])[0].verdict == "holds"


def test_similar_needs_both_sides():
    """An equivalence test within 3 points."""
    near = Evidence({"t": rows("A", [50.0, 51.0, 52.0, 49.0]) + rows("B", [50.2, 50.9, 52.1, 48.8])})
    far = Evidence({"t": rows("A", [50.0, 51.0, 52.0, 49.0]) + rows("B", [60.2, 60.9, 62.1, 58.8])})
    assert judge(near, [claim(*similar("t", "A", "B", "MS=500"))])[0].verdict == "holds"
    (outcome,) = judge(far, [claim(*similar("t", "A", "B", "MS=500"))])
    assert outcome.verdict == "does not hold"
    assert outcome.ours == "-10.0 points"  # the difference, once; not how far it is from the bounds


def test_every_claim_of_the_paper_runs_on_nothing():
    """With no runs at all each says so."""
    outcomes = judge(Evidence({}))
    assert [outcome.verdict for outcome in outcomes] == ["not run"] * len(CLAIMS)
    assert len({item.name for item in CLAIMS}) == len(CLAIMS)
    text = claims.markdown(outcomes)
    assert text.startswith(f"{len(CLAIMS)} claims: {len(CLAIMS)} not run.\n\n| claim ")
    assert text.count("\n") == len(CLAIMS) + 3


def test_ours_is_worded_in_the_direction_of_the_papers_figure():
    """The verdict is about the contrast; what is shown of it has the sign that the paper's figure has."""
    evidence = Evidence(
        {
            "ablation": [
                {**row, "row": name}
                for name, found in (
                    ("PVBF", rows("A", [50.0, 51.0, 53.0], fall=5.0)),
                    ("PVBF w/o ACE", rows("A", [40.0, 42.0, 43.5], fall=25.0)),
                )
                for row in found
            ]
        }
    )
    (outcome,) = judge(evidence, [item for item in CLAIMS if item.name == "arm-ace"])
    lost, gained = outcome.ours.removesuffix(" points").split(", ")
    assert lost.startswith("-9.")
    assert float(gained) > 0
    assert outcome.verdict.startswith(("holds", "undecided"))


def test_variation_claims_read_the_record():
    """The shares of tasks 1 to 4, against the paper's bounds."""
    task = {
        "shares": {"below the mean": 0.67, "within one standard deviation": 0.92, "RS above 2": 0.05},
        "rr": {"largest": 80.0, "layer_means": [0.5, 0.6, 0.7, 2.0]},
    }
    entries = [{"row": "ER", "seed": seed, "variation": {"tasks": [task] * 5}} for seed in range(3)]
    by_name = {outcome.claim.name: outcome.verdict for outcome in judge(Evidence({}, {"variation": entries}))}
    for name in ("below-mean", "above-64", "output-high", "zs-below", "zs-sigma", "rs-two"):
        assert by_name[name] == "holds", name
    task["rr"]["layer_means"] = [0.5, 2.1, 0.7, 2.0]
    by_name = {outcome.claim.name: outcome.ours for outcome in judge(Evidence({}, {"variation": entries}))}
    assert by_name["output-high"] == "-0.1 times the mean"  # one layer before it is above it
