#!/usr/bin/env bash
# All tables and figures of the paper: the runs that are not done yet, then the figures and the page, whose paths are printed.
# `--scale tiny`: the same on the bundled digits, in about two minutes. Other flags go to mammoth.sweep: --seeds 0:3 --jobs 2.
. "$(dirname "$0")/setup.sh" requirements.txt
. scripts/scale.sh "$@"
status=0
for name in table_short table_long ablation standardization variation acc_curves controls table_offline; do
    .venv/bin/python -m mammoth.sweep run "experiments/$name.yaml" "$@" || status=$?
    if [ "$status" -gt 1 ]; then exit "$status"; fi # wrong input, or interrupted
done
.venv/bin/python -m mammoth.report tables "${scale[@]}"
.venv/bin/python -m mammoth.report figures "${scale[@]}"
.venv/bin/python -m mammoth.report page "${scale[@]}"
exit "$status"
