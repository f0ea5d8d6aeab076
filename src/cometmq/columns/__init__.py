"""Messages as columns: Arrow record batches straight from the bytes of records. Needs the package pyarrow.

`layout` declares the columns, `walk` fills them (its compiled twin is in `_compiled.pyx`), `records` makes batches.
"""

from __future__ import annotations

from cometmq.columns.layout import COLUMNS, schema
from cometmq.columns.records import BATCH_SIZE, RecordColumns

__all__ = ["BATCH_SIZE", "COLUMNS", "RecordColumns", "schema"]
