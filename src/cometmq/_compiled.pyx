# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The compiled twins of CometMQ's hot loops: one extension, one included file per subject.

It is optional: where no compiler was, or with COMETMQ_PURE=1, the pure-Python twins run, which say what is right; the
same tests run on both. It imports nothing of CometMQ: what is rare or subtle is handed to the functions it is given.
"""

include "columns/walk.pxi"
include "wire/crc32.pxi"
include "store/quick_read.pxi"
include "store/index_entries.pxi"
include "store/append.pxi"
include "store/log_walk.pxi"
include "store/dispatch.pxi"
include "store/replay.pxi"
include "broker/send_lane.pxi"
