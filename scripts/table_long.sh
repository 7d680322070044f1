#!/usr/bin/env bash
# Tab. 2 of the paper. Resumes where it stopped; for a part of it: --seeds 0:3 --jobs 2 --only pvbf,er_ace
exec bash "$(dirname "$0")/experiment.sh" table_long "$@"
