// Vectors of floats and their elementary functions, compiled once for each instruction set. The
// including file defines ELMAN_ISA (a namespace) and ELMAN_WIDTH (floats in a vector). Everything is in
// an unnamed namespace: a shared inline function compiled for AVX-512 could be linked into the
// baseline path.
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __AVX512F__
#include <immintrin.h>
#endif

#define ELMAN_INLINE static inline __attribute__((always_inline))

namespace ELMAN_ISA {
namespace {

constexpr int W = ELMAN_WIDTH;
typedef float V __attribute__((vector_size(W * 4)));
typedef int32_t VI __attribute__((vector_size(W * 4)));

ELMAN_INLINE V all(float x) { return V{} + x; }

ELMAN_INLINE V load(const float *p) {
    V v;
    memcpy(&v, p, sizeof v);
    return v;
}

ELMAN_INLINE V load(const float *p, ptrdiff_t n) {
    if (n >= W) return load(p);
#ifdef __AVX512F__
    return (V)_mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p);
#else
    V v = {};
    for (int i = 0; i < n; i++) v[i] = p[i];
    return v;
#endif
}

ELMAN_INLINE void store(float *p, V v, ptrdiff_t n) {
    if (n >= W) {
        memcpy(p, &v, sizeof v);
        return;
    }
#ifdef __AVX512F__
    _mm512_mask_storeu_ps(p, (__mmask16)((1u << n) - 1), (__m512)v);
#else
    for (int i = 0; i < n; i++) p[i] = v[i];
#endif
}

// e^x = 2^k (1 + q), |x − k ln 2| ≤ ln 2 / 2, q by its Taylor polynomial of degree 7 (2e-8). NaN
// passes: both comparisons are false for it.
ELMAN_INLINE void exp_parts(V x, V &power, V &q) {
    x = x < all(-87.0f) ? all(-87.0f) : x;
    x = x > all(87.0f) ? all(87.0f) : x;
    const V magic = all(12582912.0f);  // 1.5 · 2^23: adding it rounds to the nearest integer
    V k = x * 1.44269504f + magic;
    VI bits = ((VI)k - (VI)magic + 127) << 23;
    k = k - magic;
    V r = x - k * 0.693359375f;
    r = r - k * -2.12194440e-4f;
    V p = all(1.0f / 5040);
    p = p * r + 1.0f / 720;
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    q = p * r * r + r;
    power = (V)bits;
}

ELMAN_INLINE V sigmoid(V x) {
    V power, q;
    exp_parts(-x, power, q);
    return 1.0f / (1.0f + (power + power * q));
}

// tanh x = m / (m + 2), m = e^{2x} − 1 without cancellation near 0. Beyond 10 it is ±1 in float32.
ELMAN_INLINE V tanh(V x) {
    x = x < all(-10.0f) ? all(-10.0f) : x;
    x = x > all(10.0f) ? all(10.0f) : x;
    V power, q;
    exp_parts(x + x, power, q);
    V m = power * q + (power - 1.0f);
    return m / (m + 2.0f);
}

ELMAN_INLINE ptrdiff_t ceil_div(ptrdiff_t a, ptrdiff_t b) { return (a + b - 1) / b; }

}  // namespace
}  // namespace ELMAN_ISA
