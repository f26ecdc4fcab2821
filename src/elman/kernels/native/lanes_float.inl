// What products are made of in float32: one number to a lane. The same names as in lanes_bfloat16.inl.

namespace ELMAN_ISA {
namespace {

constexpr ptrdiff_t D = 1;  // numbers of the depth in a lane

ELMAN_INLINE V broadcast(const float *lane) { return *lane - V{}; }  // folds to a move; + 0 does not
ELMAN_INLINE V multiply_add(V sum, V a, V b) { return sum + a * b; }
ELMAN_INLINE V lanes(V even, V) { return even; }
ELMAN_INLINE float lane(float even, float) { return even; }
ELMAN_INLINE V neighbours(V first, V) { return first; }
ELMAN_INLINE void apart_again(V, V &, V &) {}

}  // namespace
}  // namespace ELMAN_ISA
