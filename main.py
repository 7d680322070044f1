"""The door: `python main.py --model pvbf`."""

import sys

from mammoth import cli


def main(argv: list[str] | None = None) -> int:
    """Run a command line (default: the process's own) and return the exit status."""
    return cli.main(sys.argv[1:] if argv is None else argv)


if __name__ == "__main__":
    sys.exit(main())
