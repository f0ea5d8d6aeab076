# Index entries of messages, and their way into a file: the twins of `entries_of` in index_keys.py and of
# `packed_entries` in index_file.py.

from cpython.buffer cimport PyBUF_WRITABLE
from cpython.list cimport PyList_GET_SIZE
from cpython.set cimport PySet_Add

cdef extern from "Python.h":
    int PyUnicode_KIND(object text)
    void* PyUnicode_DATA(object text)
    Py_ssize_t PyUnicode_GET_LENGTH(object text)
    uint32_t PyUnicode_READ(int kind, const void* data, Py_ssize_t at) nogil

cdef enum:
    ROLLBACK = 0xC
    ENTRY_SIZE = 20
    SLOTS_AT = 10  # the view of the slots begins with the header's room
    PAGE_SHIFT = 10


cdef uint32_t java_hash(str text, Py_ssize_t begin, Py_ssize_t end, uint32_t value):
    """`String.hashCode` of a part of a text, behind a text whose hash is `value`: over UTF-16 units."""
    cdef int kind = PyUnicode_KIND(text)
    cdef const void* data = PyUnicode_DATA(text)
    cdef uint32_t letter
    cdef Py_ssize_t at
    if kind == 1:
        for at in range(begin, end):
            value = value * 31 + (<const uint8_t*>data)[at]
        return value
    for at in range(begin, end):
        letter = PyUnicode_READ(kind, data, at)
        if letter >= 0x10000:
            letter -= 0x10000
            value = value * 31 + (0xD800 + (letter >> 10))
            letter = 0xDC00 + (letter & 0x3FF)
        value = value * 31 + letter
    return value


cdef inline int64_t positive(uint32_t value):
    return <int64_t>((<uint32_t>(0 - value) if value & 0x80000000 else value) & 0x7FFFFFFF)


def entries_of(list messages, str separator, str tag_prefix):
    cdef list found = []
    cdef object message, at, time_ms, topic, last_queue = None
    cdef uint32_t prefix = 0, mark = ord(separator), tagged = 0
    cdef str text
    cdef Py_ssize_t begin, end, length
    for message in messages:
        if <int64_t>message[9] & ROLLBACK == ROLLBACK:
            continue
        queue = message[1]
        if queue is not last_queue:
            last_queue = queue
            text = <str?>queue.topic
            prefix = java_hash(text, 0, PyUnicode_GET_LENGTH(text), 0) * 31 + 35  # '#'
            tagged = java_hash(tag_prefix, 0, PyUnicode_GET_LENGTH(tag_prefix), prefix)
        at, time_ms = message[2], message[8]
        if message[7]:
            text = <str?>message[7]
            found.append((positive(java_hash(text, 0, PyUnicode_GET_LENGTH(text), prefix)), at, time_ms))
        if message[6]:
            text = <str?>message[6]
            length = PyUnicode_GET_LENGTH(text)
            begin = 0
            for end in range(length + 1):
                if end == length or PyUnicode_READ(PyUnicode_KIND(text), PyUnicode_DATA(text), end) == mark:
                    if end > begin:
                        found.append((positive(java_hash(text, begin, end, prefix)), at, time_ms))
                    begin = end + 1
        if message[10]:
            text = <str?>message[10]
            found.append((positive(java_hash(text, 0, PyUnicode_GET_LENGTH(text), tagged)), at, time_ms))
    return found


cdef inline void put_u32(uint8_t* to, uint32_t value) noexcept:
    to[0], to[1], to[2], to[3] = value >> 24, value >> 16 & 0xFF, value >> 8 & 0xFF, value & 0xFF


def packed_entries(list entries, object slots, int64_t slot_count, int64_t entry, int64_t begin_ms, set dirty):
    cdef Py_ssize_t count = PyList_GET_SIZE(entries), number
    cdef Py_buffer table
    cdef int32_t* slot
    cdef int64_t key_hash, at, time_ms, seconds, older, used = 0, place, page, last_page = -1
    cdef uint8_t* to
    packed = PyBytes_FromStringAndSize(NULL, count * ENTRY_SIZE)
    to = <uint8_t*>PyBytes_AS_STRING(packed)
    PyObject_GetBuffer(slots, &table, PyBUF_WRITABLE)
    try:
        slot = <int32_t*>table.buf
        if table.len < (SLOTS_AT + slot_count) * 4:
            raise ValueError("the slots are fewer than was said")
        for number in range(count):
            key_hash, at, time_ms = <tuple?>entries[number]
            if key_hash < 0:
                raise ValueError("a hash cannot be negative")
            place = key_hash % slot_count + SLOTS_AT
            older = slot[place]
            if not 0 < older < entry:
                older = 0
                used += 1
            seconds = 0
            if begin_ms > 0 and time_ms > begin_ms:
                seconds = min((time_ms - begin_ms) // 1000, <int64_t>0x7FFFFFFF)
            put_u32(to, <uint32_t>key_hash)
            put_u32(to + 4, <uint32_t>(<uint64_t>at >> 32))
            put_u32(to + 8, <uint32_t>at)
            put_u32(to + 12, <uint32_t>seconds)
            put_u32(to + 16, <uint32_t>older)
            to += ENTRY_SIZE
            slot[place] = <int32_t>entry
            page = place >> PAGE_SHIFT
            if page != last_page:
                last_page = page
                PySet_Add(dirty, page)
            if entry == 1:
                begin_ms = time_ms
            entry += 1
    finally:
        PyBuffer_Release(&table)
    return packed, used
