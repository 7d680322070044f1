"""The door: `python main.py --model pvbf`."""

import sys

from mammoth.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
