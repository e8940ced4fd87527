"""``python -m antiphon``: the same as the ``antiphon`` command. Owns nothing else."""

from __future__ import annotations

import sys

from antiphon.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
