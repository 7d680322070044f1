#!/usr/bin/env bash
# The main job on bundled data: PVBF, ER-ACE and ER on the digits, three seeds each; a table and a figure.
. "$(dirname "$0")/setup.sh" requirements.txt
.venv/bin/python -m mammoth.sweep run experiments/quickstart.yaml
echo
.venv/bin/python -m mammoth.report tables experiments/quickstart.yaml
.venv/bin/python -m mammoth.report figures experiments/quickstart.yaml
