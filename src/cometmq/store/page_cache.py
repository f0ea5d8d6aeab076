"""What the system has in memory of a mapped file: asked without touching it.

A question that reads is none. Even a read that may not wait (`RWF_NOWAIT`) has the system fetch the page it lacks: soon
both ends of a range are there because they were asked about, and nothing between them.
"""

from __future__ import annotations

import ctypes
import mmap
from typing import Any, Final

_PyBuffer: Final = ctypes.c_void_p * 10  # as large as that structure, whose first member is the address
_python: Final = ctypes.pythonapi
_python.PyObject_GetBuffer.argtypes = (ctypes.py_object, _PyBuffer, ctypes.c_int)
_python.PyBuffer_Release.argtypes = (_PyBuffer,)
_python.PyBuffer_Release.restype = None
# Called with the interpreter's lock held: it takes microseconds, and to get the lock back may take longer.
_mincore: Final[Any] = getattr(ctypes.PyDLL(None), "mincore", None)
if _mincore is not None:
    _mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p)


def in_memory(view: memoryview) -> bool:
    """Whether every page of this slice of a map is there; False if the system does not tell."""
    if _mincore is None:
        return False
    buffer = _PyBuffer()
    _python.PyObject_GetBuffer(view, buffer, 0)
    address = buffer[0] or 0
    _python.PyBuffer_Release(buffer)  # the view still holds the map
    before = address % mmap.PAGESIZE
    size = before + len(view)
    pages = ctypes.create_string_buffer(-(-size // mmap.PAGESIZE))
    return _mincore(address - before, size, pages) == 0 and b"\0" not in pages.raw
