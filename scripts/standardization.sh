#!/usr/bin/env bash
# Tabs. B.5 and B.6 of the paper. Resumes where it stopped; for a part of it: --seeds 0:3 --jobs 2 --only PVBF-RS
exec bash "$(dirname "$0")/experiment.sh" standardization "$@"
