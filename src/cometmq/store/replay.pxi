# From records that were found to the units of queues: the twins of `entries_in_python` in replay.py and of
# `put_units_in_python` in dispatch.py.

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE, PyByteArray_Resize

cdef enum:
    PREPARED = 0x4


cdef inline str text_of(const char* value, Py_ssize_t size):
    return None if value == NULL else PyUnicode_DecodeUTF8(value, size, "replace")


def replayed_entries(
    list found, int64_t start, dict queues, int64_t indexed_before, int64_t last_ms, int64_t newest_ms, object patient,
    object mend,
):
    cdef list entries = []
    cdef tuple record
    cdef int64_t physical_offset, end, store_time_ms, max_physical, queue_offset, sys_flag
    cdef bytes data
    cdef str tags
    cdef const char* at
    cdef const char* stop
    cdef const char* piece_end
    cdef const char* value
    cdef const char* tags_value
    cdef const char* keys_value
    cdef const char* unique_value
    cdef Py_ssize_t name_size, value_size, tags_size, keys_size, unique_size
    for record in found:
        store_time_ms = record[5]
        if last_ms < store_time_ms < newest_ms:
            last_ms = store_time_ms
        queue = queues.get((record[6], record[2]))
        if queue is None:
            entry = patient(start, record)
            if entry is not None:
                entries.append(entry)
            continue
        physical_offset = start + <int64_t>record[0]
        end = physical_offset + <int64_t>record[1]
        max_physical = queue.max_physical
        if end < max_physical and physical_offset < indexed_before:
            continue
        data = <bytes?>record[7]
        at = PyBytes_AS_STRING(data)
        stop = at + PyBytes_GET_SIZE(data)
        tags_value = keys_value = unique_value = NULL
        tags_size = keys_size = unique_size = 0
        while at < stop:
            piece_end = <const char*>memchr(at, 2, stop - at)
            if piece_end == NULL:
                piece_end = stop
            value = <const char*>memchr(at, 1, piece_end - at)
            if value != NULL and value + 1 < piece_end:
                name_size = value - at
                value += 1
                value_size = piece_end - value
                if name_size == 4 and memcmp(at, b"TAGS", 4) == 0:
                    tags_value, tags_size = value, value_size
                elif name_size == 4 and memcmp(at, b"KEYS", 4) == 0:
                    keys_value, keys_size = value, value_size
                elif name_size == 8 and memcmp(at, b"UNIQ_KEY", 8) == 0:
                    unique_value, unique_size = value, value_size
            at = piece_end + 1
        tags = text_of(tags_value, tags_size)
        code = 0 if tags is None else <int32_t>java_hash(tags, 0, PyUnicode_GET_LENGTH(tags), 0)
        sys_flag = record[4]
        if end == max_physical:
            mend(queue, physical_offset, code)
        entries.append((
            end,
            queue,
            physical_offset,
            record[1],
            code,
            -1 if sys_flag & PREPARED else record[3],
            text_of(keys_value, keys_size),
            text_of(unique_value, unique_size),
            record[5],
            record[4],
            tags,
        ))
    return entries, last_ms


def put_units(list entries, object put):
    cdef tuple entry
    cdef int64_t end, queue_offset, max_offset, max_physical
    cdef Py_ssize_t count = 0
    for entry in entries:
        queue_offset = entry[5]
        if queue_offset < 0:
            continue
        queue = entry[1]
        end, max_offset, max_physical = entry[0], queue.max_offset, queue.max_physical
        if queue_offset == max_offset and end > max_physical >= 0:
            add_unit(queue, entry)
            queue.max_offset = queue_offset + 1
            queue.max_physical = end
            queue.dirty = True
            count += 1
        elif end > max_physical or max_offset < 0:
            count += <bint>put(queue, entry[2], entry[3], entry[4], queue_offset, entry[8])
    return count
