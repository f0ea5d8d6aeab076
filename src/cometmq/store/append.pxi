# The records of a batch, one behind the other: the twin of the loop in `Appender._append_all`.

cdef enum:
    SIZE_AT = 0  # of a record's head
    CRC_AT = 8
    FLAG_AT = 16
    QUEUE_OFFSET_AT = 20
    PHYSICAL_OFFSET_AT = 28


cdef inline void put_u64(uint8_t* to, uint64_t value) noexcept:
    put_u32(to, <uint32_t>(value >> 32))
    put_u32(to + 4, <uint32_t>value)


def batch_records(
    list items, bytes head, bytes topic_part, int64_t at, int64_t queue_offset, object queue, object store_time_ms,
    object sys_flag, object crc32, object tags_code, object remember,
):
    cdef Py_ssize_t head_size = PyBytes_GET_SIZE(head), topic_size = PyBytes_GET_SIZE(topic_part)
    cdef Py_ssize_t fixed_size = head_size + topic_size + 2, total = 0, body_size, properties_size, size
    cdef list offsets = []
    cdef bytes properties_data
    cdef object body, last_tags = None, code = 0
    cdef Py_buffer source
    cdef uint8_t* to
    for item in items:
        total += fixed_size + len(item[1]) + len(<bytes?>item[2])
    records = PyBytes_FromStringAndSize(NULL, total)
    to = <uint8_t*>PyBytes_AS_STRING(records)
    for item in items:
        flag, body, data, tags, keys, uniq_key = <tuple?>item
        if tags is not last_tags:
            last_tags, code = tags, tags_code(tags)
        properties_data = <bytes?>data
        properties_size = PyBytes_GET_SIZE(properties_data)
        PyObject_GetBuffer(body, &source, PyBUF_SIMPLE)
        try:
            body_size = source.len
            size = fixed_size + body_size + properties_size
            if size > total:
                raise ValueError("a body has grown")
            total -= size
            memcpy(to, PyBytes_AS_STRING(head), head_size)
            put_u32(to + SIZE_AT, <uint32_t>size)
            put_u32(to + CRC_AT, crc_of(<const uint8_t*>source.buf, body_size, crc32))
            put_u32(to + FLAG_AT, <uint32_t><int32_t>flag)
            put_u64(to + QUEUE_OFFSET_AT, <uint64_t>queue_offset)
            put_u64(to + PHYSICAL_OFFSET_AT, <uint64_t>at)
            put_u32(to + head_size - 4, <uint32_t>body_size)
            to += head_size
            memcpy(to, source.buf, body_size)
            to += body_size
        finally:
            PyBuffer_Release(&source)
        memcpy(to, PyBytes_AS_STRING(topic_part), topic_size)
        to += topic_size
        to[0], to[1] = properties_size >> 8 & 0xFF, properties_size & 0xFF
        memcpy(to + 2, PyBytes_AS_STRING(properties_data), properties_size)
        to += 2 + properties_size
        place = at
        at += size
        remember((at, queue, place, size, code, queue_offset, keys, uniq_key, store_time_ms, sys_flag, tags))
        offsets.append(place)
        queue_offset += 1
    return records, offsets
