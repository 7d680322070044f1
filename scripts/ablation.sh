#!/usr/bin/env bash
# Tab. 3 of the paper. Resumes where it stopped; for a part of it: --seeds 0:3 --jobs 2
exec bash "$(dirname "$0")/experiment.sh" ablation "$@"
