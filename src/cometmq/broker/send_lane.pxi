# Sends as clients usually write them, from the frame to the record and the reply, with no object made of the request:
# the short cut of `broker/send_lane.py`, where is written when it is taken. What is not recognised to the byte is left
# where it stands, for the patient way.

cdef enum:
    BORN_TIME_AT = 40  # of a record's head, where the born host has 8 bytes
    BORN_HOST_AT = 48
    STORE_TIME_AT = 56
    BORN_HOST_SIZE = 8

    CODE_END = 12  # of {"code":310, or {"code":320,
    REST_MAX = 1024
    BORN = 1  # what is cut out of a header; the number stands in the rest in its place
    PROPERTIES = 2
    OPAQUE = 4
    SHAPE_MAX = 128
    SUB_HEAD = 20
    AT_ONCE_MAX = 2048
    PROPERTIES_MAX = 32767
    SCRATCH_KEPT = 1 << 20

cdef const char* UNIQ_KEY = b"UNIQ_KEY\x01"
cdef const char* KEYS = b"KEYS\x01"
cdef const char* HEX = b"0123456789ABCDEF"


cdef struct Text:
    const uint8_t* at
    Py_ssize_t size


cdef struct Words:  # of properties, what differs from message to message
    Text unique_key, keys  # no size: there are no keys


cdef struct Header:
    Text born, properties, opaque
    Py_ssize_t rest_size
    uint8_t rest[REST_MAX]


cdef struct Scratch:
    uint8_t* data
    Py_ssize_t size, room


cdef int reserve(Scratch* to, Py_ssize_t more) except -1:
    """Room for so many bytes more."""
    cdef Py_ssize_t room
    if to.size + more > to.room:
        room = max(2 * to.room, to.size + more, <Py_ssize_t>65536)
        data = <uint8_t*>realloc(to.data, room)
        if data == NULL:
            raise MemoryError
        to.data, to.room = data, room
    return 0


cdef void let_go(Scratch* of) noexcept:
    """Nothing is in it any more; what a large batch made it grow to is given back."""
    of.size = 0
    if of.room > SCRATCH_KEPT:
        free(of.data)
        of.data, of.room = NULL, 0


cdef inline void put(Scratch* to, const void* data, Py_ssize_t size) noexcept:
    memcpy(to.data + to.size, data, size)
    to.size += size


cdef void put_decimal(Scratch* to, int64_t value) noexcept:
    cdef uint8_t digits[20]
    cdef int at = 20
    while True:
        at -= 1
        digits[at] = 48 + value % 10
        value //= 10
        if value == 0:
            break
    put(to, digits + at, 20 - at)


cdef bint is_decimal(Text text, Py_ssize_t size_max) noexcept:
    cdef Py_ssize_t at
    if not 0 < text.size <= size_max:
        return False
    for at in range(text.size):
        if not 48 <= text.at[at] <= 57:
            return False
    return True


cdef bint is_alphanumeric(Text text) noexcept:
    cdef Py_ssize_t at
    cdef uint8_t letter
    for at in range(text.size):
        letter = text.at[at]
        if not (48 <= letter <= 57 or 65 <= letter <= 90 or 97 <= letter <= 122):
            return False
    return text.size > 0


cdef bint keep_rest(Header* found, const uint8_t* begin, const uint8_t* end) noexcept:
    """Copy what is not cut out; False for what is escaped, no ASCII, or too much."""
    cdef Py_ssize_t size = end - begin, at
    cdef uint8_t letter
    cdef bint fine = True
    if found.rest_size + size + 1 > REST_MAX:
        return False
    for at in range(size):
        letter = begin[at]
        found.rest[found.rest_size + at] = letter
        fine = fine and letter >= 32 and letter < 128 and letter != 92
    found.rest_size += size
    return fine


cdef bint scan_header(const uint8_t* at, const uint8_t* end, Header* found) noexcept:
    """Cut born time, properties and opaque out of a JSON header without spaces; False if it is not such a one."""
    cdef const uint8_t* kept = at
    cdef const uint8_t* key
    cdef const uint8_t* value
    cdef Py_ssize_t key_size
    cdef Text* part
    cdef int depth = 1, seen = 0, which
    found.rest_size = 0
    at += CODE_END
    while True:
        if end - at < 4 or at[0] != 34:
            return False
        key = at + 1
        at = <const uint8_t*>memchr(key, 34, end - key)
        if at == NULL or end - at < 3 or at[1] != 58:
            return False
        key_size = at - key
        at += 2
        part, which = NULL, 0
        if at[0] == 34:
            value = at + 1
            at = <const uint8_t*>memchr(value, 34, end - value)
            if at == NULL:
                return False
            if depth == 2 and key_size == 1:
                if key[0] == 103:  # g
                    part, which = &found.born, BORN
                elif key[0] == 105:  # i
                    part, which = &found.properties, PROPERTIES
        elif at[0] == 123:
            if depth == 2 or key_size != 9 or memcmp(key, b"extFields", 9) != 0:
                return False
            depth = 2
            at += 1
            continue
        else:
            value = at
            while at < end and at[0] != 44 and at[0] != 125:
                at += 1
            if depth == 1 and key_size == 6 and memcmp(key, b"opaque", 6) == 0:
                part, which = &found.opaque, OPAQUE
        if part != NULL:
            if seen & which or not keep_rest(found, kept, value):
                return False
            seen |= which
            part.at, part.size = value, at - value
            found.rest[found.rest_size] = which
            found.rest_size += 1
            kept = at
        if at < end and at[0] == 34:
            at += 1
        while at < end and at[0] == 125:
            at += 1
            depth -= 1
            if depth == 0:
                return at == end and seen == (BORN | PROPERTIES | OPAQUE) and keep_rest(found, kept, end)
        if at >= end or at[0] != 44:
            return False
        at += 1


cdef Py_ssize_t unescaped(Text text, uint8_t* to) noexcept:
    """The size of a JSON text without its escapes; -1 if one is not that of a separator, or a letter is no ASCII."""
    cdef Py_ssize_t at = 0, size = 0
    cdef uint8_t letter
    while at < text.size:
        letter = text.at[at]
        at += 1
        if letter == 92:
            if text.size - at < 5 or memcmp(text.at + at, b"u000", 4) != 0:
                return -1
            letter = text.at[at + 4] - 48
            if letter != 1 and letter != 2:
                return -1
            at += 5
        elif letter < 32 or letter >= 128:
            return -1
        to[size] = letter
        size += 1
    return size


cdef inline int close_properties(uint8_t* text, Py_ssize_t size) noexcept:
    """Put the last separator where a client has left it out, behind the text; returns how many bytes that are."""
    if text[size - 1] == 2:
        return 0
    text[size] = 2
    return 1


cdef bint find_unique_key(Text text, Text* key) noexcept:
    """The first unique key, where it is a property of its own and not empty: the rule of `SentProperties.read`."""
    cdef const uint8_t* at = text.at
    cdef const uint8_t* end = text.at + text.size
    while True:
        if end - at < 10:
            return False
        at = <const uint8_t*>memchr(at, 85, end - at - 9)
        if at == NULL:
            return False
        if memcmp(at, UNIQ_KEY, 9) == 0:
            break
        at += 1
    if at > text.at and at[-1] != 2:
        return False
    key.at = at + 9
    at = <const uint8_t*>memchr(key.at, 2, end - key.at)
    if at == NULL or at == key.at:
        return False
    key.size = at - key.at
    return True


cdef bint find_keys(Text text, Text* keys) noexcept:
    """The first keys, if there are any; False if they are empty, or do not end."""
    cdef const uint8_t* at = text.at
    cdef const uint8_t* end = text.at + text.size
    cdef const uint8_t* stop
    keys.at, keys.size = end, 0
    while at < end:
        stop = <const uint8_t*>memchr(at, 2, end - at)
        if end - at >= 5 and memcmp(at, KEYS, 5) == 0:
            if stop == NULL or stop - at == 5:
                return False
            keys.at, keys.size = at + 5, stop - at - 5
            return True
        if stop == NULL:
            return True
        at = stop + 1
    return True


cdef inline uint8_t* copy(uint8_t* to, const uint8_t* begin, const uint8_t* end) noexcept:
    memcpy(to, begin, end - begin)
    return to + (end - begin)


cdef class SendLane:
    """Takes the usual sends at the front of what one read brought. `_routes` has what is known of their headers."""

    cdef dict _routes, _queues, _shapes
    cdef object _log, _undispatched, _room, _learn, _read, _now_ms, _crc32, _tags_code, _answer, _last_tags, _tags_hash
    cdef bytes _own, _id_prefix
    cdef tuple _literals
    cdef Py_ssize_t _body_max, _routes_max
    cdef Scratch _records, _replies, _text, _inner

    def __init__(
        self, object log, dict queues, object undispatched, dict shapes, object read, bytes own, bytes id_prefix,
        tuple literals, Py_ssize_t body_max, Py_ssize_t routes_max, object room, object learn, object answer,
        object now_ms, object crc32, object tags_code,
    ):
        if len(literals) != 6:
            raise ValueError("a reply has five gaps")
        self._routes = {}
        self._log, self._queues, self._undispatched = log, queues, undispatched
        self._shapes, self._read, self._own, self._id_prefix = shapes, read, own, id_prefix
        self._literals, self._body_max, self._routes_max = literals, body_max, routes_max
        self._room, self._learn, self._answer = room, learn, answer
        self._now_ms, self._crc32, self._tags_code = now_ms, crc32, tags_code
        self._last_tags, self._tags_hash = None, 0

    def __dealloc__(self):
        free(self._records.data)
        free(self._replies.data)
        free(self._text.data)
        free(self._inner.data)

    def forget(self):
        """What is known of headers may be wrong by now."""
        self._routes.clear()

    def __call__(self, object channel, object view, Py_ssize_t at):
        """Take what is usual from `at` on; returns where the first frame stands that is not."""
        cdef Py_buffer source
        PyObject_GetBuffer(view, &source, PyBUF_SIMPLE)
        try:
            if at < 0 or not self._is_send(<const uint8_t*>source.buf + at, source.len - at):
                return at
            return self._take_all(channel, <const uint8_t*>source.buf, at, source.len)
        finally:
            PyBuffer_Release(&source)

    cdef bint _is_send(self, const uint8_t* at, Py_ssize_t size) noexcept:
        """Whether a whole frame stands here that says it is a send, or one of many."""
        cdef int64_t needed
        if size < 8 + CODE_END or memcmp(at + 8, b'{"code":3', 9) != 0 or memcmp(at + 18, b"0,", 2) != 0:
            return False
        needed = 4 + <int64_t>comet_u32(at)
        return (at[17] == 49 or at[17] == 50) and needed <= size and 8 + <int64_t>comet_u32(at + 4) <= needed

    cdef Py_ssize_t _take_all(self, object channel, const uint8_t* data, Py_ssize_t at, Py_ssize_t size) except -1:
        cdef object log = self._log
        cdef Py_ssize_t requests = 0, requests_max, count = 0, room, taken
        cdef bytes born_host = channel.peer_host
        cdef int64_t begin = log.end, end = begin, limit = log.limit, now_ms
        requests_max, room = self._room()
        if log.refusal is not None or PyBytes_GET_SIZE(born_host) != BORN_HOST_SIZE:
            return at
        now_ms = max(<int64_t>self._now_ms(), <int64_t>log.last_store_time_ms)
        self._records.size = self._replies.size = 0
        try:
            while requests < requests_max and count < room and self._is_send(data + at, size - at):
                taken = self._take(channel, data + at, born_host, now_ms, end, limit, room - count)
                if taken == 0:
                    break
                at += 4 + comet_u32(data + at)
                end = begin + self._records.size
                count += taken
                requests += 1
        finally:
            if requests:
                log.last_store_time_ms = now_ms
                log.parts.append(PyBytes_FromStringAndSize(<char*>self._records.data, self._records.size))
                log.end = end
                replies = PyBytes_FromStringAndSize(<char*>self._replies.data, self._replies.size)
                self._answer(channel, replies, requests, end)
            let_go(&self._records)
            let_go(&self._replies)
        return at

    cdef Py_ssize_t _take(
        self, object channel, const uint8_t* frame, bytes born_host, int64_t now_ms, int64_t end, int64_t limit,
        Py_ssize_t count_max,
    ) except -1:
        """Take one request: the number of its messages, 0 if it is to be left alone, and nothing has changed."""
        cdef Header header
        cdef const uint8_t* body = frame + 8 + comet_u32(frame + 4)
        cdef Text sent = Text(body, frame + 4 + comet_u32(frame) - body), properties
        cdef Words words
        cdef Py_ssize_t records_size = self._records.size, replies_size = self._replies.size, count = 0
        cdef object shape, queue
        cdef tuple route
        if not 0 < sent.size <= self._body_max or not scan_header(frame + 8, body, &header):
            return 0
        if not is_decimal(header.born, 18) or not is_decimal(header.opaque, 9):
            return 0
        if header.opaque.at[0] == 48 and header.opaque.size > 1:
            return 0
        route = self._route(channel, frame, body, &header)
        if route is None:
            return 0
        is_batch, _, queue, head, topic_part, sys_flag, queue_id = route
        self._text.size = 0
        reserve(&self._text, header.properties.size + 1)
        properties.at, properties.size = self._text.data, unescaped(header.properties, self._text.data)
        if properties.size <= 0:
            return 0
        properties.size += close_properties(self._text.data, properties.size)
        shape = self._shape(properties, &words)
        if shape is None or not shape[1] or not shape[2]:  # it waits, and is plain
            return 0
        if not is_alphanumeric(words.unique_key):
            return 0
        cdef int64_t born_ms = 0, queue_offset = queue.next_offset
        for at in range(header.born.size):
            born_ms = born_ms * 10 + header.born.at[at] - 48
        self._begin_reply()
        cdef list entries = []
        cdef tuple common = (queue, head, topic_part, sys_flag, born_host)
        if is_batch:
            count = self._put_batch(sent, common, born_ms, now_ms, end, queue_offset, entries, count_max)
        else:
            count = self._put(
                sent, properties, self._own, words, shape, -1, common, born_ms, now_ms, end, queue_offset, entries
            )
        if count == 0 or end + (self._records.size - records_size) + 8 > limit:
            self._records.size, self._replies.size = records_size, replies_size
            return 0
        self._end_reply(replies_size, queue_id, queue_offset, words.unique_key, header.opaque)
        self._undispatched.extend(entries)
        queue.next_offset = queue_offset + count
        return count

    cdef tuple _route(self, object channel, const uint8_t* frame, const uint8_t* body, Header* header):
        """Where messages with such a header go; None if that is not known, or not for here."""
        cdef bytes rest = PyBytes_FromStringAndSize(<char*>header.rest, header.rest_size)
        route = self._routes.get(rest)
        if route is None:
            route = self._learn(channel, PyBytes_FromStringAndSize(<const char*>frame + 4, body - frame - 4))
            if route is None:
                return None
            if len(self._routes) >= self._routes_max:
                self._routes.clear()
            self._routes[rest] = route
        if route is False:
            return None
        if self._queues.get(route[1]) is not route[2]:  # the queue was deleted
            del self._routes[rest]
            return None
        return <tuple?>route

    cdef object _shape(self, Text text, Words* words):
        """What the properties say, unique key and keys apart; None if that is not plain to see."""
        cdef uint8_t rest[SHAPE_MAX]
        cdef uint8_t* to = rest
        cdef const uint8_t* begin
        cdef const uint8_t* behind
        cdef const uint8_t* end = text.at + text.size
        cdef Text keys
        if not find_unique_key(text, &words.unique_key) or not find_keys(text, &words.keys):
            return None
        keys = words.keys
        begin = words.unique_key.at - 9
        behind = words.unique_key.at + words.unique_key.size + 1
        if text.size - (behind - begin) - keys.size <= SHAPE_MAX:
            if keys.at < begin:
                to = copy(copy(to, text.at, keys.at), keys.at + keys.size, begin)
                to = copy(to, behind, end)
            else:
                to = copy(copy(to, text.at, begin), behind, keys.at)
                to = copy(to, keys.at + keys.size, end)
            shape = self._shapes.get(PyUnicode_DecodeUTF8(<char*>rest, to - rest, NULL))
            if shape is not None:
                return shape
        read = self._read(PyUnicode_DecodeUTF8(<char*>text.at, text.size, NULL))
        return None if read is None else read[2]

    cdef Py_ssize_t _put_batch(
        self, Text sent, tuple common, int64_t born_ms, int64_t now_ms, int64_t end, int64_t queue_offset,
        list entries, Py_ssize_t count_max,
    ) except -1:
        """The records of a batch; 0 if any of its messages is not plain."""
        cdef const uint8_t* at = sent.at
        cdef const uint8_t* stop = sent.at + sent.size
        cdef Text body, properties, closed
        cdef Words words
        cdef int64_t body_size
        cdef Py_ssize_t count = 0, begin = self._records.size
        cdef int64_t flag
        if count_max > AT_ONCE_MAX - 1:
            count_max = AT_ONCE_MAX - 1
        while at < stop:
            if count == count_max or stop - at < SUB_HEAD + 2:
                return 0
            flag = comet_u32(at + 12)
            body_size = <int32_t>comet_u32(at + 16)
            if body_size < 0 or body_size > stop - at - SUB_HEAD - 2:
                return 0
            body.at, body.size = at + SUB_HEAD, body_size
            at = body.at + body_size
            properties.at, properties.size = at + 2, at[0] << 8 | at[1]
            if properties.size > PROPERTIES_MAX or properties.size > stop - properties.at:
                return 0
            at = properties.at + properties.size
            if not comet_is_ascii(properties.at, properties.size):
                return 0
            closed = properties
            if properties.size and properties.at[properties.size - 1] != 2:
                reserve(&self._inner, properties.size + 1)
                memcpy(self._inner.data, properties.at, properties.size)
                closed.at = self._inner.data
                closed.size += close_properties(self._inner.data, properties.size)
            shape = self._shape(closed, &words)
            if shape is None or not shape[2]:
                return 0
            self._put(
                body, properties, b"", words, shape, flag, common, born_ms, now_ms, end + (self._records.size - begin),
                queue_offset + count, entries,
            )
            count += 1
        return count

    cdef Py_ssize_t _put(
        self, Text body, Text properties, bytes more, Words words, object shape, int64_t flag, tuple common,
        int64_t born_ms, int64_t now_ms, int64_t at, int64_t queue_offset, list entries,
    ) except -1:
        """One record, its id for the reply, and what dispatch must know; 0 if the properties are too large."""
        cdef bytes head = <bytes>common[1], topic_part = <bytes>common[2], born_host = <bytes>common[4]
        cdef Py_ssize_t head_size = PyBytes_GET_SIZE(head), more_size = PyBytes_GET_SIZE(more)
        cdef Py_ssize_t properties_size = properties.size + more_size
        cdef Py_ssize_t size = head_size + body.size + PyBytes_GET_SIZE(topic_part) + 2 + properties_size
        cdef uint8_t* to
        cdef uint8_t short_size[2]
        cdef uint32_t crc
        if properties_size > PROPERTIES_MAX:
            return 0
        tags = shape[0]
        if tags is not self._last_tags:
            self._last_tags, self._tags_hash = tags, self._tags_code(tags)
        crc = crc_of(body.at, body.size, self._crc32)
        unique_key = PyUnicode_DecodeUTF8(<char*>words.unique_key.at, words.unique_key.size, NULL)
        keys = PyUnicode_DecodeUTF8(<char*>words.keys.at, words.keys.size, NULL) if words.keys.size else None
        reserve(&self._records, size)
        self._put_id(at)
        entries.append((
            at + size, common[0], at, size, self._tags_hash, queue_offset, keys, unique_key, now_ms, common[3], tags
        ))
        to = self._records.data + self._records.size
        put(&self._records, PyBytes_AS_STRING(head), head_size)
        put_u32(to + SIZE_AT, <uint32_t>size)
        put_u32(to + CRC_AT, crc)
        if flag >= 0:
            put_u32(to + FLAG_AT, <uint32_t>flag)
        put_u64(to + QUEUE_OFFSET_AT, <uint64_t>queue_offset)
        put_u64(to + PHYSICAL_OFFSET_AT, <uint64_t>at)
        put_u64(to + BORN_TIME_AT, <uint64_t>born_ms)
        memcpy(to + BORN_HOST_AT, PyBytes_AS_STRING(born_host), BORN_HOST_SIZE)
        put_u64(to + STORE_TIME_AT, <uint64_t>now_ms)
        put_u32(to + head_size - 4, <uint32_t>body.size)
        put(&self._records, body.at, body.size)
        put(&self._records, PyBytes_AS_STRING(topic_part), PyBytes_GET_SIZE(topic_part))
        short_size[0], short_size[1] = properties_size >> 8 & 0xFF, properties_size & 0xFF
        put(&self._records, short_size, 2)
        put(&self._records, properties.at, properties.size)
        put(&self._records, PyBytes_AS_STRING(more), more_size)
        return 1

    # A reply: the lengths, and the literals of its template with the five values between them.

    cdef int _put_literal(self, int number) except -1:
        cdef bytes literal = <bytes?>self._literals[number]
        reserve(&self._replies, PyBytes_GET_SIZE(literal))
        put(&self._replies, PyBytes_AS_STRING(literal), PyBytes_GET_SIZE(literal))
        return 0

    cdef int _begin_reply(self) except -1:
        reserve(&self._replies, 8)
        self._replies.size += 8
        self._put_literal(0)
        return 0

    cdef int _put_id(self, int64_t at) except -1:
        """The id of a message; where one follows, the comma is in the way of nobody: `_end_reply` takes the last."""
        cdef int shift
        reserve(&self._replies, PyBytes_GET_SIZE(self._id_prefix) + 17)
        put(&self._replies, PyBytes_AS_STRING(self._id_prefix), PyBytes_GET_SIZE(self._id_prefix))
        for shift in range(60, -4, -4):
            self._replies.data[self._replies.size] = HEX[<uint64_t>at >> shift & 0xF]
            self._replies.size += 1
        self._replies.data[self._replies.size] = 44
        self._replies.size += 1
        return 0

    cdef int _end_reply(
        self, Py_ssize_t begin, bytes queue_id, int64_t queue_offset, Text key, Text opaque
    ) except -1:
        cdef Py_ssize_t size
        self._replies.size -= 1
        self._put_literal(1)
        reserve(&self._replies, PyBytes_GET_SIZE(queue_id))
        put(&self._replies, PyBytes_AS_STRING(queue_id), PyBytes_GET_SIZE(queue_id))
        self._put_literal(2)
        reserve(&self._replies, 20)
        put_decimal(&self._replies, queue_offset)
        self._put_literal(3)
        reserve(&self._replies, key.size)
        put(&self._replies, key.at, key.size)
        self._put_literal(4)
        reserve(&self._replies, opaque.size)
        put(&self._replies, opaque.at, opaque.size)
        self._put_literal(5)
        size = self._replies.size - begin - 8
        put_u32(self._replies.data + begin, <uint32_t>(4 + size))
        put_u32(self._replies.data + begin + 4, <uint32_t>size)
        return 0
