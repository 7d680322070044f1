#!/usr/bin/env bash
# Figs. 5 and 6 of the paper, from the runs of its tables. Resumes where it stopped; for a part of it: --seeds 0:3 --jobs 2 --only pvbf,er_ace
exec bash "$(dirname "$0")/experiment.sh" acc_curves "$@"
