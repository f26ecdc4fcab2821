// Vectors of floats and their elementary functions, compiled once for each instruction set. The
// including file defines ELMAN_ISA (a namespace) and ELMAN_WIDTH (floats in a vector). Everything is in
// an unnamed namespace: a shared inline function compiled for AVX-512 could be linked into the
// baseline path.
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__SSE2__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
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

// The units of a vector that exist: all W, or the first n.
struct Full {};
struct Some {
    ptrdiff_t n;
};
ELMAN_INLINE V load(const float *p, Full) { return load(p); }
ELMAN_INLINE V load(const float *p, Some some) { return load(p, some.n); }
ELMAN_INLINE void store(float *p, V v, Full) { memcpy(p, &v, sizeof v); }
ELMAN_INLINE void store(float *p, V v, Some some) { store(p, v, some.n); }
ELMAN_INLINE void store(float *p, V v) { memcpy(p, &v, sizeof v); }

// x where it lies within [low, high], else the bound; NaN stays NaN: x86 hands on the second operand.
ELMAN_INLINE V clamp(V x, float low, float high) {
#if defined(__AVX512F__)
    // Without a mask GCC 12 warns of a register that its own header leaves open.
    const __mmask16 every = 0xffff;
    x = (V)_mm512_maskz_max_ps(every, (__m512)all(low), (__m512)x);
    return (V)_mm512_maskz_min_ps(every, (__m512)all(high), (__m512)x);
#elif defined(__AVX2__)
    return (V)_mm256_min_ps((__m256)all(high), _mm256_max_ps((__m256)all(low), (__m256)x));
#elif defined(__SSE2__)
    return (V)_mm_min_ps((__m128)all(high), _mm_max_ps((__m128)all(low), (__m128)x));
#elif defined(__aarch64__)
    return (V)vminq_f32((float32x4_t)all(high), vmaxq_f32((float32x4_t)all(low), (float32x4_t)x));
#else
    x = x < all(low) ? all(low) : x;
    return x > all(high) ? all(high) : x;
#endif
}

// 1 / x to within two units in the last place, for 2^-126 < x < 2^126; NaN passes.
ELMAN_INLINE V reciprocal(V x) {
#if defined(__AVX512F__)  // an estimate of 14 bits and a step of Newton's, in a third of the time
    V r = (V)_mm512_maskz_rcp14_ps(0xffff, (__m512)x);
    return r * (2.0f - x * r);
#else
    return 1.0f / x;
#endif
}

// e^x = 2^k (1 + q), |x − k ln 2| ≤ ln 2 / 2, q by the polynomial of degree 6 whose largest error
// relative to e^x is the least (3e-9). NaN passes.
ELMAN_INLINE void exp_parts(V x, V &power, V &q) {
    x = clamp(x, -87.0f, 87.0f);
    const V magic = all(12582912.0f);  // 1.5 · 2^23: adding it rounds to the nearest integer
    V k = x * 1.44269504f + magic;
    VI bits = ((VI)k - (VI)magic + 127) << 23;
    k = k - magic;
    V r = x - k * 0.693359375f;
    r = r - k * -2.12194440e-4f;
    V p = all(0.00138145985f);
    p = p * r + 0.00836871689f;
    p = p * r + 0.041668388f;
    p = p * r + 0.166665206f;
    p = p * r + 0.499999934f;
    q = p * r * r + r;
    power = (V)bits;
}

ELMAN_INLINE V sigmoid(V x) {
    V power, q;
    exp_parts(-x, power, q);
    return reciprocal(1.0f + (power + power * q));
}

// tanh x = m / (m + 2), m = e^{2x} − 1 without cancellation near 0. Beyond 10 it is ±1 in float32.
ELMAN_INLINE V tanh(V x) {
    x = clamp(x, -10.0f, 10.0f);
    V power, q;
    exp_parts(x + x, power, q);
    V m = power * q + (power - 1.0f);
    return m * reciprocal(m + 2.0f);
}

ELMAN_INLINE ptrdiff_t ceil_div(ptrdiff_t a, ptrdiff_t b) { return (a + b - 1) / b; }

}  // namespace
}  // namespace ELMAN_ISA
