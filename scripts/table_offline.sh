#!/usr/bin/env bash
# Tab. 4 of the paper. Resumes where it stopped; for a part of it: --seeds 0:1 --columns MS=200
exec bash "$(dirname "$0")/experiment.sh" table_offline "$@"
