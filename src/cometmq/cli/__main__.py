"""`python -m cometmq.cli`."""

from __future__ import annotations

import sys

from cometmq.cli import main

sys.exit(main())
