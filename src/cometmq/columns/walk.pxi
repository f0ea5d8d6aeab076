# The walk over records that fills columns: the twin of walk.py, where what it does is written down.
# A row is written by C alone; bodies that are packed, IPv6 hosts and properties that are unusual go through Python.

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, realloc
from libc.string cimport memchr, memcmp, memcpy

cdef extern from "Python.h":
    object PyUnicode_DecodeUTF8(const char* data, Py_ssize_t size, const char* errors)

cdef extern from *:
    """
    #include <stdint.h>
    #include <string.h>
    static inline uint32_t comet_u32(const unsigned char *p) {
        return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
    }
    static inline int64_t comet_i64(const unsigned char *p) {
        return (int64_t)((uint64_t)comet_u32(p) << 32 | comet_u32(p + 4));
    }
    static inline int comet_is_ascii(const unsigned char *p, size_t size) {
        uint64_t word, seen = 0;
        for (; size >= 8; p += 8, size -= 8) { memcpy(&word, p, 8); seen |= word; }
        for (; size; p++, size--) seen |= *p;
        return !(seen & UINT64_C(0x8080808080808080));
    }
    """
    uint32_t comet_u32(const uint8_t* p) nogil
    int64_t comet_i64(const uint8_t* p) nogil
    bint comet_is_ascii(const uint8_t* p, size_t size) nogil

cdef enum:
    MAGIC_V1 = 0xDAA320A7
    MAGIC_V2 = 0xDAA320AB
    MAGIC_BLANK = 0xCBD43194
    BLANK_SIZE = 8
    HEAD_SIZE = 88  # with hosts of 8 bytes, up to and including the body's length
    V6_MORE = 12  # bytes that a host of IPv6 takes more
    PAIRS_MAX = 64  # properties of a message that are read here; more go through Python
    ROW_SIZE = 128
    REACHED = 0
    NEXT_SEGMENT = 1
    NO_RECORD = 2
    FULL = 3

cdef int64_t COLUMN_SIZE_MAX = 0x7FFFFFFF
cdef int64_t LONG_MAX = 0x7FFFFFFFFFFFFFFF
cdef int64_t LONG_MIN = -LONG_MAX - 1
cdef int64_t TIME_MIN_MS = -62135596800000
cdef int64_t TIME_MAX_MS = 253402300799999
cdef const char* HEX_DIGITS = "0123456789ABCDEF"
cdef char NOTHING = 0


cdef class Block:
    """Bytes that grow, and then belong to an Arrow array."""

    cdef char* data
    cdef Py_ssize_t size
    cdef Py_ssize_t room

    def __dealloc__(self):
        free(self.data)

    def __getbuffer__(self, Py_buffer* buffer, int flags):
        PyBuffer_FillInfo(buffer, self, self.data if self.data != NULL else &NOTHING, self.size, 1, flags)

    cdef char* more(self, Py_ssize_t count) except NULL:
        """Where the next `count` bytes go; they count as written."""
        cdef Py_ssize_t room
        cdef char* data
        if self.size + count > self.room:
            room = max(self.size + count, self.room * 2, <Py_ssize_t>4096)
            data = <char*>realloc(self.data, room)
            if data == NULL:
                raise MemoryError
            self.data, self.room = data, room
        self.size += count
        return self.data + self.size - count


cdef class Cells:
    """A column: values of one size, or texts with their offsets; which rows are null is kept once one is."""

    cdef Block values
    cdef Block offsets
    cdef Block validity
    cdef Py_ssize_t rows
    cdef Py_ssize_t nulls
    cdef bint is_text

    def __cinit__(self, bint is_text):
        self.is_text = is_text
        self.begin()

    cdef int begin(self) except -1:
        cdef Py_ssize_t room = 0 if self.values is None else self.values.size
        self.values = Block()
        if room:  # most likely as much as the last time
            self.values.more(room)
            self.values.size = 0
        self.rows = self.nulls = 0
        self.validity = Block()
        if self.is_text:
            self.offsets = Block()
            (<int32_t*>self.offsets.more(4))[0] = 0
        return 0

    cdef inline int mark(self, bint there) except -1:
        if self.rows % 8 == 0:
            self.validity.more(1)[0] = 0
        if there:
            self.validity.data[self.rows // 8] |= 1 << (self.rows % 8)
        else:
            self.nulls += 1
        return 0

    cdef inline int text(self, const char* data, Py_ssize_t size) except -1:
        """Adds a text without looking at null; `rows` is moved."""
        if size:
            memcpy(self.values.more(size), data, size)
        (<int32_t*>self.offsets.more(4))[0] = <int32_t>self.values.size
        self.rows += 1
        return 0

    cdef inline int maybe_text(self, const char* data, Py_ssize_t size, bint there) except -1:
        self.mark(there)
        return self.text(data, size if there else 0)

    cdef inline int number(self, int32_t value) except -1:
        (<int32_t*>self.values.more(4))[0] = value
        return 0

    cdef inline int long_number(self, int64_t value) except -1:
        (<int64_t*>self.values.more(8))[0] = value
        return 0

    cdef inline int time(self, int64_t time_ms) except -1:
        cdef bint there = TIME_MIN_MS <= time_ms <= TIME_MAX_MS
        self.mark(there)
        self.rows += 1
        return self.long_number(time_ms * 1000 if there else 0)

    cdef object null_bits(self):
        return self.validity if self.nulls else None


cdef struct Pair:
    const char* name
    Py_ssize_t name_size
    const char* value
    Py_ssize_t value_size


cdef inline bint _is(Pair* pair, const char* name, Py_ssize_t size) noexcept:
    return pair.name_size == size and memcmp(pair.name, name, size) == 0


cdef class Walk:
    """Gathers the wanted columns of records until they are taken."""

    cdef readonly Py_ssize_t rows
    cdef readonly int64_t size
    cdef object _unpack, _host_text, _parse, _crc32, _topics
    cdef int64_t _from_ms, _until_ms
    cdef bint _check_crc, _is_last_topic_wanted
    cdef bytes _last_topic
    cdef Cells _topic, _queue, _offset, _message_id, _body, _tags, _keys, _born_time, _store_time, _born_host
    cdef Cells _reconsume_times, _pair_counts, _pair_names, _pair_values

    def __init__(
        self, columns, unpack, host_text, parse, crc32, topics, int64_t from_ms, int64_t until_ms, bint check_crc
    ):
        self._unpack, self._host_text, self._parse, self._crc32 = unpack, host_text, parse, crc32
        self._topics = topics
        self._from_ms, self._until_ms, self._check_crc = from_ms, until_ms, check_crc
        self._topic = Cells(True) if "topic" in columns else None
        self._queue = Cells(False) if "queue" in columns else None
        self._offset = Cells(False) if "offset" in columns else None
        self._message_id = Cells(True) if "message_id" in columns else None
        self._body = Cells(True) if "body" in columns else None
        self._tags = Cells(True) if "tags" in columns else None
        self._keys = Cells(True) if "keys" in columns else None
        self._born_time = Cells(False) if "born_time" in columns else None
        self._store_time = Cells(False) if "store_time" in columns else None
        self._born_host = Cells(True) if "born_host" in columns else None
        self._reconsume_times = Cells(False) if "reconsume_times" in columns else None
        if "properties" in columns:
            self._pair_counts = Cells(False)
            self._pair_counts.number(0)
            self._pair_names = Cells(True)
            self._pair_values = Cells(True)

    def add(
        self,
        data,
        Py_ssize_t at=0,
        Py_ssize_t stop=-1,
        int64_t base=-1,
        int64_t start_offset=LONG_MIN,
        int64_t end_offset=LONG_MAX,
    ):
        """Walk the records that begin in [at, stop); returns how many rows came, where it stopped, and why."""
        cdef Py_buffer view
        cdef Py_ssize_t rows_before = self.rows
        PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
        try:
            if stop < 0 or stop > view.len:
                stop = view.len
            reason = self._run(<const uint8_t*>view.buf, view.len, &at, stop, base, start_offset, end_offset)
        finally:
            PyBuffer_Release(&view)
        return self.rows - rows_before, at, reason

    cdef int _run(
        self,
        const uint8_t* data,
        Py_ssize_t size,
        Py_ssize_t* where,
        Py_ssize_t stop,
        int64_t base,
        int64_t start_offset,
        int64_t end_offset,
    ) except -1:
        cdef Py_ssize_t at = where[0]
        cdef Py_ssize_t left, total, born_size, body_at, body_size, topic_at, topic_size, properties_at, properties_size
        cdef uint32_t magic
        cdef int32_t sys_flag
        cdef int64_t offset, store_time_ms
        cdef const uint8_t* record
        while at < stop:
            where[0] = at
            left = size - at
            record = data + at
            if left < BLANK_SIZE:
                return NO_RECORD
            magic = comet_u32(record + 4)
            if magic != MAGIC_V1 and magic != MAGIC_V2:
                return NEXT_SEGMENT if magic == MAGIC_BLANK and base >= 0 else NO_RECORD
            if left < HEAD_SIZE:
                return NO_RECORD
            total = <int32_t>comet_u32(record)
            sys_flag = <int32_t>comet_u32(record + 36)
            born_size = 20 if sys_flag & 0x10 else 8
            body_at = HEAD_SIZE + (V6_MORE if sys_flag & 0x10 else 0) + (V6_MORE if sys_flag & 0x20 else 0)
            if total < body_at or total > left:
                return NO_RECORD
            body_size = <int32_t>comet_u32(record + body_at - 4)
            topic_at = body_at + body_size + (1 if magic == MAGIC_V1 else 2)
            if body_size < 0 or topic_at > total:
                return NO_RECORD
            if magic == MAGIC_V1:
                topic_size = record[topic_at - 1]
                if topic_size > 127:
                    return NO_RECORD
            else:
                topic_size = record[topic_at - 2] << 8 | record[topic_at - 1]
                if topic_size > 0x7FFF:
                    return NO_RECORD
            properties_at = topic_at + topic_size + 2
            if properties_at > total:
                return NO_RECORD
            properties_size = record[properties_at - 2] << 8 | record[properties_at - 1]
            if properties_at + properties_size != total or properties_size > 0x7FFF:
                return NO_RECORD
            if base >= 0:
                if comet_i64(record + 28) != base + at or not topic_size or not record[topic_at + topic_size - 1]:
                    return NO_RECORD
                if properties_size and not record[total - 1]:
                    return NO_RECORD
                if self._check_crc and body_size:
                    if crc_of(record + body_at, body_size, self._crc32) != comet_u32(record + 8):
                        return NO_RECORD
            offset = comet_i64(record + 20)
            store_time_ms = comet_i64(record + 48 + born_size)
            if (
                start_offset <= offset
                and (offset < end_offset or end_offset == LONG_MAX)
                and self._from_ms <= store_time_ms
                and (store_time_ms < self._until_ms or self._until_ms == LONG_MAX)
                and self._is_wanted(<const char*>record + topic_at, topic_size)
                and not self._row(
                    record, sys_flag, body_at, body_size, topic_at, topic_size, properties_at, properties_size
                )
            ):
                return FULL
            at += total
        where[0] = at
        return REACHED

    cdef bint _is_wanted(self, const char* topic, Py_ssize_t size) except -1:
        if self._topics is None:
            return True
        # Neighbours are often of one topic.
        if (
            self._last_topic is None
            or PyBytes_GET_SIZE(self._last_topic) != size
            or memcmp(PyBytes_AS_STRING(self._last_topic), topic, size) != 0
        ):
            self._last_topic = PyBytes_FromStringAndSize(topic, size)
            self._is_last_topic_wanted = self._last_topic in self._topics
        return self._is_last_topic_wanted

    cdef bint _row(
        self,
        const uint8_t* record,
        int32_t sys_flag,
        Py_ssize_t body_at,
        Py_ssize_t body_size,
        Py_ssize_t topic_at,
        Py_ssize_t topic_size,
        Py_ssize_t properties_at,
        Py_ssize_t properties_size,
    ) except -1:
        """Add one row; False if its columns would become too large."""
        cdef const char* body = <const char*>record + body_at
        cdef const char* topic = <const char*>record + topic_at
        cdef Py_ssize_t born_size = 20 if sys_flag & 0x10 else 8
        cdef Py_ssize_t store_size = 20 if sys_flag & 0x20 else 8
        cdef int64_t size = ROW_SIZE + topic_size + properties_size
        cdef bytes unpacked, sound_topic
        if self._body is not None:
            if sys_flag & 1:
                unpacked = self._unpack(
                    PyBytes_FromStringAndSize(body, body_size),
                    sys_flag,
                    PyBytes_FromStringAndSize(topic, topic_size),
                    <int32_t>comet_u32(record + 12),
                    comet_i64(record + 20),
                )
                body, body_size = PyBytes_AS_STRING(unpacked), PyBytes_GET_SIZE(unpacked)
            size += body_size
        if self.size + size > COLUMN_SIZE_MAX and self.rows:
            return False
        self.size += size
        self.rows += 1
        if self._body is not None:
            self._body.text(body, body_size)
        if self._topic is not None:
            if comet_is_ascii(<const uint8_t*>topic, topic_size):
                self._topic.text(topic, topic_size)
            else:
                sound_topic = PyBytes_FromStringAndSize(topic, topic_size).decode("utf-8", "replace").encode()
                self._topic.text(PyBytes_AS_STRING(sound_topic), PyBytes_GET_SIZE(sound_topic))
        if self._queue is not None:
            self._queue.number(<int32_t>comet_u32(record + 12))
        if self._offset is not None:
            self._offset.long_number(comet_i64(record + 20))
        if self._born_time is not None:
            self._born_time.time(comet_i64(record + 40))
        if self._store_time is not None:
            self._store_time.time(comet_i64(record + 48 + born_size))
        if self._reconsume_times is not None:
            self._reconsume_times.number(<int32_t>comet_u32(record + 56 + born_size + store_size))
        if self._born_host is not None:
            self._add_host(record + 48, born_size)
        if not (self._message_id is None and self._tags is None and self._keys is None and self._pair_names is None):
            self._add_properties(
                <const char*>record + properties_at, properties_size, record + 56 + born_size, store_size, record + 28
            )
        return True

    cdef int _add_host(self, const uint8_t* host, Py_ssize_t size) except -1:
        cdef char text[32]
        cdef int length = 0
        cdef int index
        cdef bytes wide
        if size == 8:
            for index in range(4):
                length += _decimal(text + length, host[index])
                text[length] = 58 if index == 3 else 46  # : and .
                length += 1
            length += _decimal(text + length, comet_u32(host + 4))
            return self._born_host.text(text, length)
        wide = self._host_text(PyBytes_FromStringAndSize(<const char*>host, size)).encode()
        return self._born_host.text(PyBytes_AS_STRING(wide), PyBytes_GET_SIZE(wide))

    cdef int _add_properties(
        self, const char* data, Py_ssize_t size, const uint8_t* host, Py_ssize_t host_size, const uint8_t* position
    ) except -1:
        cdef Pair pairs[PAIRS_MAX]
        cdef list patient = None  # keeps what the pairs then point into
        cdef Py_ssize_t count = _split(data, size, pairs)
        if count >= 0 and not comet_is_ascii(<const uint8_t*>data, size):
            try:
                PyUnicode_DecodeUTF8(data, size, NULL)
            except UnicodeDecodeError:
                count = -1
        if count < 0:
            patient = [
                (name.encode(), value.encode())
                for name, value in self._parse(
                    PyBytes_FromStringAndSize(data, size).decode("utf-8", "replace")
                ).items()
            ]
            return self._add_patient(patient, host, host_size, position)
        cdef Pair* pair
        cdef Pair* tags = NULL
        cdef Pair* keys = NULL
        cdef Pair* unique = NULL
        cdef Py_ssize_t index
        for index in range(count):
            pair = &pairs[index]
            if _is(pair, "TAGS", 4):
                tags = pair
            elif _is(pair, "KEYS", 4):
                keys = pair
            elif _is(pair, "UNIQ_KEY", 8):
                unique = pair
        if self._tags is not None:
            self._tags.maybe_text(tags.value if tags else NULL, tags.value_size if tags else 0, tags != NULL)
        if self._keys is not None:
            self._keys.maybe_text(keys.value if keys else NULL, keys.value_size if keys else 0, keys != NULL)
        if self._message_id is not None:
            if unique:
                self._message_id.text(unique.value, unique.value_size)
            else:
                self._add_offset_id(host, host_size, position)
        if self._pair_names is not None:
            for index in range(count):
                self._pair_names.text(pairs[index].name, pairs[index].name_size)
                self._pair_values.text(pairs[index].value, pairs[index].value_size)
            self._pair_counts.number(<int32_t>self._pair_names.rows)
        return 0

    cdef int _add_patient(
        self, list found, const uint8_t* host, Py_ssize_t host_size, const uint8_t* position
    ) except -1:
        cdef dict texts = dict(found)
        cdef bytes name, value
        if self._tags is not None:
            value = texts.get(b"TAGS", b"")
            self._tags.maybe_text(PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value), b"TAGS" in texts)
        if self._keys is not None:
            value = texts.get(b"KEYS", b"")
            self._keys.maybe_text(PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value), b"KEYS" in texts)
        if self._message_id is not None:
            value = texts.get(b"UNIQ_KEY", b"")
            if value:
                self._message_id.text(PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value))
            else:
                self._add_offset_id(host, host_size, position)
        if self._pair_names is not None:
            for name, value in found:
                self._pair_names.text(PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name))
                self._pair_values.text(PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value))
            self._pair_counts.number(<int32_t>self._pair_names.rows)
        return 0

    cdef int _add_offset_id(self, const uint8_t* host, Py_ssize_t host_size, const uint8_t* position) except -1:
        cdef char text[56]
        cdef Py_ssize_t index, length = 0
        cdef uint8_t byte
        for index in range(host_size + 8):
            byte = host[index] if index < host_size else position[index - host_size]
            text[length] = HEX_DIGITS[byte >> 4]
            text[length + 1] = HEX_DIGITS[byte & 15]
            length += 2
        return self._message_id.text(text, length)

    def take(self):
        """How many rows there are, and the buffers of each column; the walk begins anew."""
        cdef dict taken = {}
        cdef Cells cells
        for name, cells in (
            ("topic", self._topic),
            ("message_id", self._message_id),
            ("tags", self._tags),
            ("keys", self._keys),
            ("born_host", self._born_host),
            ("offset", self._offset),
            ("born_time", self._born_time),
            ("store_time", self._store_time),
            ("queue", self._queue),
            ("reconsume_times", self._reconsume_times),
            ("body", self._body),
        ):
            if cells is not None:
                bits = cells.null_bits()
                taken[name] = (bits, cells.offsets, cells.values) if cells.is_text else (bits, cells.values)
                cells.begin()
        if self._pair_names is not None:
            names, values = self._pair_names, self._pair_values
            taken["properties"] = (
                self._pair_counts.values, names.offsets, names.values, values.offsets, values.values
            )
            for cells in (self._pair_counts, names, values):
                cells.begin()
            self._pair_counts.number(0)
        rows = self.rows
        self.rows = 0
        self.size = 0
        return rows, taken


cdef inline int _decimal(char* text, uint32_t value) noexcept:
    cdef char digits[10]
    cdef int count = 0, index
    while True:
        digits[count] = <char>(48 + value % 10)
        count += 1
        value //= 10
        if value == 0:
            break
    for index in range(count):
        text[index] = digits[count - 1 - index]
    return count


cdef Py_ssize_t _split(const char* data, Py_ssize_t size, Pair* pairs) noexcept:
    """The properties in these bytes; -1 if they are too many or one comes twice."""
    cdef const char* at = data
    cdef const char* end = data + size
    cdef const char* piece_end
    cdef const char* separator
    cdef Py_ssize_t count = 0, index
    while at < end:
        piece_end = <const char*>memchr(at, 2, end - at)
        if piece_end == NULL:
            piece_end = end
        separator = <const char*>memchr(at, 1, piece_end - at)
        if separator != NULL and separator > at and separator + 1 < piece_end:
            if count == PAIRS_MAX:
                return -1
            pairs[count].name, pairs[count].name_size = at, separator - at
            pairs[count].value, pairs[count].value_size = separator + 1, piece_end - separator - 1
            for index in range(count):
                if _is(&pairs[index], at, separator - at):
                    return -1
            count += 1
        at = piece_end + 1
    return count
