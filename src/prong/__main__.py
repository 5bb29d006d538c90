"""Run the command line with ``python -m prong``."""

from prong.face.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
