"""Start `mammoth.benchmark` from anywhere: `python scripts/benchmark.py [--quick] [--output FILE.json] [--compare OLD.json]`."""

import subprocess
import sys
from pathlib import Path

if __name__ == "__main__":
    root = Path(__file__).resolve().parent.parent
    sys.exit(subprocess.call([sys.executable, "-m", "mammoth.benchmark", *sys.argv[1:]], cwd=root))
