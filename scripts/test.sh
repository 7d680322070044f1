#!/usr/bin/env bash
# The gate: lint, format, types, tests. `--full` adds the long tests.
. "$(dirname "$0")/setup.sh" requirements-dev.txt
case "${1:-}" in
    "") select=(-m "not long") ;;
    --full) select=() ;;
    *) echo "error: usage: bash scripts/test.sh [--full]" >&2; exit 2 ;;
esac
.venv/bin/ruff check .
.venv/bin/ruff format --check .
.venv/bin/mypy
OMP_NUM_THREADS=1 .venv/bin/python -m pytest -n "$(nproc)" "${select[@]}"
