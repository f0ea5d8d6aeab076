# The CRC-32 of message bodies where the processor multiplies polynomials: a fifth of zlib's time.
#
# A body is folded, 64 bytes at a time, into 128 bits that have the same remainder, as "Fast CRC Computation for Generic
# Polynomials Using PCLMULQDQ Instruction" (Intel, 2009) describes; the constants are powers of x modulo the polynomial, in
# reflected order: x^(512±32) to go on by 64 bytes, x^(128±32) by 16, x^64 to halve, then Barrett's reduction.
# Short bodies, and other processors, are zlib's.

from cpython.buffer cimport PyBUF_READ
from cpython.memoryview cimport PyMemoryView_FromMemory

cdef extern from *:
    """
    #if defined(__x86_64__) && defined(__GNUC__)
    #include <immintrin.h>
    #define COMET_FOLDS __attribute__((target("pclmul,sse4.1")))
    static int comet_folds(void) {
        __builtin_cpu_init();
        return __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.1");
    }
    static inline COMET_FOLDS __m128i comet_fold(__m128i x, __m128i powers, __m128i next) {
        __m128i low = _mm_clmulepi64_si128(x, powers, 0x00), high = _mm_clmulepi64_si128(x, powers, 0x11);
        return _mm_xor_si128(_mm_xor_si128(low, high), next);
    }
    /* At least 64 bytes. What is left behind the last 16 goes bit by bit. */
    static COMET_FOLDS uint32_t comet_crc32(const unsigned char *p, size_t size) {
        const __m128i by_64 = _mm_set_epi64x(0x1c6e41596, 0x154442bd4);
        const __m128i by_16 = _mm_set_epi64x(0x0ccaa009e, 0x1751997d0);
        const __m128i halve = _mm_set_epi64x(0, 0x163cd6124);
        const __m128i barrett = _mm_set_epi64x(0x1f7011641, 0x1db710641);
        const __m128i words = _mm_setr_epi32(-1, 0, -1, 0);
        #define COMET_LOAD(at) _mm_loadu_si128((const __m128i *)(p + (at)))
        __m128i a = _mm_xor_si128(COMET_LOAD(0), _mm_cvtsi32_si128(-1));
        __m128i b = COMET_LOAD(16), c = COMET_LOAD(32), d = COMET_LOAD(48), t;
        uint32_t crc;
        int bit;
        for (p += 64, size -= 64; size >= 64; p += 64, size -= 64) {
            a = comet_fold(a, by_64, COMET_LOAD(0));
            b = comet_fold(b, by_64, COMET_LOAD(16));
            c = comet_fold(c, by_64, COMET_LOAD(32));
            d = comet_fold(d, by_64, COMET_LOAD(48));
        }
        a = comet_fold(comet_fold(comet_fold(a, by_16, b), by_16, c), by_16, d);
        for (; size >= 16; p += 16, size -= 16) a = comet_fold(a, by_16, COMET_LOAD(0));
        a = _mm_xor_si128(_mm_srli_si128(a, 8), _mm_clmulepi64_si128(a, by_16, 0x10));
        a = _mm_xor_si128(_mm_srli_si128(a, 4), _mm_clmulepi64_si128(_mm_and_si128(a, words), halve, 0x00));
        t = _mm_clmulepi64_si128(_mm_and_si128(a, words), barrett, 0x10);
        t = _mm_clmulepi64_si128(_mm_and_si128(t, words), barrett, 0x00);
        crc = (uint32_t)_mm_extract_epi32(_mm_xor_si128(a, t), 1);
        for (; size; p++, size--)
            for (crc ^= *p, bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (0xEDB88320 & (0 - (crc & 1)));
        return ~crc;
    }
    #else
    static int comet_folds(void) { return 0; }
    static uint32_t comet_crc32(const unsigned char *p, size_t size) { return 0; }
    #endif
    """
    bint comet_folds() nogil
    uint32_t comet_crc32(const uint8_t* p, size_t size) nogil

cdef bint FOLDS = comet_folds()


cdef uint32_t crc_of(const uint8_t* body, Py_ssize_t size, object crc32) except? 0:
    """The checksum of a body as records carry it; `crc32` is zlib's."""
    if FOLDS and size >= 64:
        return comet_crc32(body, size) & 0x7FFFFFFF
    if size == 0:  # there may be no address either
        return 0
    return <uint32_t><int64_t>crc32(PyMemoryView_FromMemory(<char*>body, size, PyBUF_READ)) & 0x7FFFFFFF


def body_crc(bytes body, object crc32):
    return crc_of(<const uint8_t*>PyBytes_AS_STRING(body), PyBytes_GET_SIZE(body), crc32)
