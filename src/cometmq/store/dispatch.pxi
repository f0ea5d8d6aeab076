# Units of messages that were just appended: the twin of `new_units_in_python` in dispatch.py.

cdef inline int add_unit(object queue, tuple entry) except -1:
    """The unit of a message behind those of its queue."""
    cdef bytearray tail = <bytearray?>queue.tail
    cdef Py_ssize_t size = PyByteArray_GET_SIZE(tail)
    cdef uint8_t* to
    PyByteArray_Resize(tail, size + UNIT_SIZE)
    to = <uint8_t*>PyByteArray_AS_STRING(tail) + size
    put_u64(to, <uint64_t><int64_t>entry[2])
    put_u32(to + 8, <uint32_t><int64_t>entry[3])
    put_u64(to + 12, <uint64_t><int64_t>entry[4])
    return 0


def new_units(list entries, object put):
    cdef tuple entry
    cdef int64_t queue_offset
    cdef Py_ssize_t count = 0
    cdef dict grown = {}
    for entry in entries:
        queue, queue_offset = entry[1], entry[5]
        if queue_offset == <int64_t>queue.max_offset:
            add_unit(queue, entry)
            queue.max_offset = queue_offset + 1
            queue.max_physical = entry[0]
            grown[queue] = None
            count += 1
        elif queue_offset >= 0 and queue.alive:
            count += <bint>put(queue, entry[2], entry[3], entry[4], queue_offset, entry[8])
            grown[queue] = None
    return count, grown
