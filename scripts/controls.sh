#!/usr/bin/env bash
# Beyond the paper: what is balancing, what is only a larger step. Resumes where it stopped; for a part of it: --seeds 0:3
exec bash "$(dirname "$0")/experiment.sh" controls "$@"
