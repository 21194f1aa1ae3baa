"""``python -m kbwiki``."""

import sys

from kbwiki.cli import main

sys.exit(main())
