#!/usr/bin/env bash
# Figs. 2, 3, 7 and A.8 to A.11 of the paper. Resumes where it stopped; for a part of it: --seeds 0:3 --jobs 2 --only er
exec bash "$(dirname "$0")/experiment.sh" variation "$@"
