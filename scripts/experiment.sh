#!/usr/bin/env bash
# One experiment: the runs that are not done yet, then its table and figures. `bash scripts/experiment.sh NAME [flags of mammoth.sweep]`
if [ $# = 0 ]; then echo "error: usage: bash scripts/experiment.sh NAME [--seeds 0:3] [--jobs 2] [--only pvbf,er_ace]" >&2; exit 2; fi
. "$(dirname "$0")/setup.sh" requirements.txt
file="experiments/$1.yaml"
shift
. scripts/scale.sh "$@"
status=0
.venv/bin/python -m mammoth.sweep run "$file" "$@" || status=$?
if [ "$status" -gt 1 ]; then exit "$status"; fi # wrong input, or interrupted
echo
.venv/bin/python -m mammoth.report tables "$file" --stale keep "${scale[@]}"
.venv/bin/python -m mammoth.report figures "$file" --stale keep "${scale[@]}"
exit "$status"
