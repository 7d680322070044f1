#!/usr/bin/env bash
# Tab. 1 of the paper. Resumes where it stopped; for a part of it: --seeds 0:3 --jobs 2 --only pvbf,er_ace; to try it: --scale tiny
exec bash "$(dirname "$0")/experiment.sh" table_short "$@"
