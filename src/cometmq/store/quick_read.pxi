# The reply of a usual pull: the twin of `framed` in quick_read.py; and that of `sound_ranges` in unit_healing.py.

cdef enum:
    UNIT_SIZE = 20
    RECORD_SIZE_MIN = 91


cdef inline bint is_record(const uint8_t* record, int32_t size, int32_t queue_id, int64_t queue_offset) nogil:
    """Whether the record says of itself what its unit does."""
    return (
        <int32_t>comet_u32(record) == size
        and comet_i64(record + 20) == queue_offset
        and <int32_t>comet_u32(record + 12) == queue_id
    )


def framed(
    bytes head, object view, int64_t start, bytes units, int64_t end, int64_t size_max, int32_t queue_id,
    int64_t queue_offset,
):
    cdef Py_ssize_t count = PyBytes_GET_SIZE(units) // UNIT_SIZE
    cdef const uint8_t* unit = <const uint8_t*>PyBytes_AS_STRING(units)
    cdef Py_ssize_t head_size = PyBytes_GET_SIZE(head)
    cdef int64_t total = 0, at
    cdef int32_t size
    cdef Py_ssize_t number
    cdef Py_buffer log
    cdef uint8_t* to
    cdef uint32_t frame_size
    for number in range(count):
        at = comet_i64(unit + number * UNIT_SIZE)
        size = <int32_t>comet_u32(unit + number * UNIT_SIZE + 8)
        if size < RECORD_SIZE_MIN or at < start or at > end - size:
            return None
        total += size
    if total > size_max:
        return None
    PyObject_GetBuffer(view, &log, PyBUF_SIMPLE)
    try:
        if end - start > log.len:
            return None
        frame = PyBytes_FromStringAndSize(NULL, head_size + total)
        to = <uint8_t*>PyBytes_AS_STRING(frame)
        memcpy(to, PyBytes_AS_STRING(head), head_size)
        frame_size = <uint32_t>(head_size - 4 + total)
        to[0], to[1], to[2], to[3] = frame_size >> 24, frame_size >> 16 & 0xFF, frame_size >> 8 & 0xFF, frame_size & 0xFF
        to += head_size
        for number in range(count):
            at = comet_i64(unit + number * UNIT_SIZE) - start
            size = <int32_t>comet_u32(unit + number * UNIT_SIZE + 8)
            if not is_record(<const uint8_t*>log.buf + at, size, queue_id, queue_offset + number):
                return None
            memcpy(to, <const uint8_t*>log.buf + at, size)
            to += size
        return frame
    finally:
        PyBuffer_Release(&log)


def sound_ranges(
    object view, int64_t start, list ranges, object offsets, Py_ssize_t number, int64_t end, int32_t queue_id
):
    cdef int64_t at
    cdef int32_t size
    cdef tuple place
    cdef Py_buffer log
    PyObject_GetBuffer(view, &log, PyBUF_SIMPLE)
    try:
        end = min(end, start + log.len)
        while number < len(ranges):
            place = ranges[number]
            at, size = place[0], place[1]
            if size < RECORD_SIZE_MIN or at < start or at > end - size:
                break
            if not is_record(<const uint8_t*>log.buf + at - start, size, queue_id, offsets[number]):
                break
            number += 1
        return number
    finally:
        PyBuffer_Release(&log)
