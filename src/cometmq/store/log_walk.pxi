# The records of a segment, one behind the other: the twin of `found_in_python` in log_walk.py.


def found_records(object view, int64_t start, Py_ssize_t at, Py_ssize_t count, object crc32):
    cdef list found = []
    cdef Py_buffer segment
    cdef const uint8_t* record
    cdef const char* topic
    cdef Py_ssize_t left, total, body_at, body_size, topic_at, topic_size, properties_at, properties_size
    cdef uint32_t magic
    cdef int32_t sys_flag
    cdef bytes last_topic = b""  # neighbours are often of one topic
    PyObject_GetBuffer(view, &segment, PyBUF_SIMPLE)
    try:
        while count > 0:
            count -= 1
            left = segment.len - at
            if left < BLANK_SIZE:
                break
            record = <const uint8_t*>segment.buf + at
            magic = comet_u32(record + 4)
            if magic == MAGIC_BLANK:
                return found, at, True
            if left < HEAD_SIZE or (magic != MAGIC_V1 and magic != MAGIC_V2):
                break
            total = <int32_t>comet_u32(record)
            sys_flag = <int32_t>comet_u32(record + 36)
            body_at = HEAD_SIZE + (V6_MORE if sys_flag & 0x10 else 0) + (V6_MORE if sys_flag & 0x20 else 0)
            if comet_i64(record + PHYSICAL_OFFSET_AT) != start + at or total > left or total < body_at:
                break
            body_size = <int32_t>comet_u32(record + body_at - 4)
            if body_size < 0 or body_at + body_size + 4 > total:
                break
            topic_at = body_at + body_size + 1
            topic_size = record[topic_at - 1]
            if magic == MAGIC_V2:
                topic_at += 1
                topic_size = topic_size << 8 | record[topic_at - 1]
            properties_at = topic_at + topic_size + 2
            properties_size = total - properties_at
            if properties_size < 0 or (record[properties_at - 2] << 8 | record[properties_at - 1]) != properties_size:
                break
            if not topic_size or not record[properties_at - 3] or (properties_size and not record[total - 1]):
                break
            if crc32 is not None and body_size and crc_of(record + body_at, body_size, crc32) != comet_u32(record + 8):
                break
            topic = <const char*>record + topic_at
            if PyBytes_GET_SIZE(last_topic) != topic_size or memcmp(PyBytes_AS_STRING(last_topic), topic, topic_size):
                last_topic = PyBytes_FromStringAndSize(topic, topic_size)
            found.append((
                at,
                total,
                <int32_t>comet_u32(record + 12),
                comet_i64(record + QUEUE_OFFSET_AT),
                sys_flag,
                comet_i64(record + (68 if sys_flag & 0x10 else 56)),
                last_topic,
                PyBytes_FromStringAndSize(<const char*>record + properties_at, properties_size),
            ))
            at += total
        return found, at, False
    finally:
        PyBuffer_Release(&segment)
