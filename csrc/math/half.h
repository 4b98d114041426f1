// float16 and bfloat16 as bit patterns, converted to and from float with round-to-nearest-even.
#pragma once

#include "bits.h"

namespace kullback::KULLBACK_SET {

struct Bfloat16 {
    uint16_t bits;
};

struct Float16 {
    uint16_t bits;
};

inline float to_float(Bfloat16 x) { return bit_cast<float>(uint32_t(x.bits) << 16); }

inline Bfloat16 to_bfloat16(float x) {
    const uint32_t bits = bit_cast<uint32_t>(x);
    const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    return {uint16_t(x != x ? 0x7fc0u : rounded)};
}

inline float to_float(Float16 x) {
    const uint32_t sign = uint32_t(x.bits & 0x8000u) << 16, rest = x.bits & 0x7fffu;
    // The exponent bias differs by 112: a product with 2^112 also normalises subnormals exactly.
    const float scaled = bit_cast<float>(rest << 13) * 0x1p112f;
    const uint32_t special = 0x7f800000u | (rest << 13);
    return bit_cast<float>(sign | (rest >= 0x7c00u ? special : bit_cast<uint32_t>(scaled)));
}

inline Float16 to_float16(float x) {
    const uint32_t bits = bit_cast<uint32_t>(x);
    const uint32_t sign = (bits >> 16) & 0x8000u, rest = bits & 0x7fffffffu;
    // Normal: rebias, round to nearest even on the 13 bits that go. Subnormal: let a float addition round at 2^-24.
    const uint32_t normal = (rest - (112u << 23) + 0xfffu + ((rest >> 13) & 1u)) >> 13;
    const uint32_t subnormal = bit_cast<uint32_t>(bit_cast<float>(rest) + 0.5f) - bit_cast<uint32_t>(0.5f);
    const uint32_t finite = rest < (113u << 23) ? subnormal : normal;
    const uint32_t large = rest > 0x7f800000u ? 0x7e00u : 0x7c00u;
    return {uint16_t(sign | (rest >= 0x477ff000u ? large : finite))};
}

// Load to and store from the precision a function computes in. Storing double in 16 bits rounds twice, through float;
// the first rounding is 2^-24 beside a last place of 2^-8 or 2^-11.
template <class C>
inline C load(double x) { return C(x); }
template <class C>
inline C load(float x) { return C(x); }
template <class C>
inline C load(Float16 x) { return C(to_float(x)); }
template <class C>
inline C load(Bfloat16 x) { return C(to_float(x)); }

template <class C>
inline void store(C x, double& out) { out = double(x); }
template <class C>
inline void store(C x, float& out) { out = float(x); }
template <class C>
inline void store(C x, Float16& out) { out = to_float16(float(x)); }
template <class C>
inline void store(C x, Bfloat16& out) { out = to_bfloat16(float(x)); }

}  // namespace kullback::KULLBACK_SET
