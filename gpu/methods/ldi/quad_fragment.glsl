#version 450 core
// quad_fragment.glsl - tests one sample of a quad with exactly the arithmetic of ct_covers and ct_fragment_at
// (raster_k.h); 64-bit integers are two 32-bit words. Pushes the fragment of a covered sample onto its ray's linked
// list.

flat in ivec4 corners;
flat in ivec4 sampling;
flat in ivec4 depth;
flat in ivec4 target;
flat in uvec3 area;

struct Fragment {
    uint key, l1, l2, tag, next;  // ct_linked_fragment
};

layout(std430, binding = 2) coherent restrict buffer Heads {
    uint head[];
};
layout(std430, binding = 3) coherent restrict buffer Windings {
    int winding[];  // two for each ray
};
layout(std430, binding = 4) writeonly restrict buffer Fragments {
    Fragment fragments[];
};
layout(std430, binding = 5) coherent restrict buffer Counter {
    uint n_fragments;  // also counts fragments beyond the capacity
};
layout(location = 1) uniform uint capacity;  // fragments
// Not 0 in the second pass: fragments are then kept only on rays that meet the other body (gpu/methods/ldi/raster_gl.h).
layout(location = 2) uniform uint is_second_pass;

const uint END = 0xffffffffu;
const uint CLOCKWISE = 8u, BEFORE = 16u;

struct Long {
    int high;
    uint low;
};

Long minus(Long a, Long b) {
    uint borrow;
    uint low = usubBorrow(a.low, b.low, borrow);
    return Long(a.high - b.high - int(borrow), low);
}

Long product(int a, int b) {
    int high, low;
    imulExtended(a, b, high, low);
    return Long(high, uint(low));
}

bool is_zero(Long a) {
    return a.high == 0 && a.low == 0u;
}

// Converts to the nearest double, as C does: both summands are exact, so only the addition rounds.
double to_double(Long a) {
    precise double high = double(a.high) * 4294967296.0lf;
    precise double sum = high + double(a.low);
    return sum;
}

// ct_round_i32
int round_int(double x) {
    precise double shifted = x + 6755399441055744.0lf;
    return int(unpackDouble2x32(shifted).x);
}

void main() {
    ivec2 at = ivec2(gl_FragCoord.xy);
    int xs = sampling.x + (at.x << sampling.z), ys = sampling.y + (at.y << sampling.w);
    Long e1 = minus(product(xs, corners.w), product(corners.z, ys));
    Long e2 = minus(product(corners.x, ys), product(xs, corners.y));
    Long e0 = minus(minus(Long(int(area.x), area.y), e1), e2);
    if ((e0.high | e1.high | e2.high) < 0) discard;
    uint flags = area.z;
    if ((is_zero(e0) && (flags & 1u) == 0u) || (is_zero(e1) && (flags & 2u) == 0u) ||
        (is_zero(e2) && (flags & 4u) == 0u))
        discard;

    uint ray = uint(target.z + at.y * target.w + at.x), tag = uint(target.y);
    bool is_entering = (flags & CLOCKWISE) != 0u;
    if ((flags & BEFORE) != 0u) {
        atomicAdd(winding[2u * ray + (tag >> 31)], is_entering ? 1 : -1);
        return;
    }
    if (is_second_pass != 0u && head[ray] == END && winding[2u * ray + 1u - (tag >> 31)] == 0) return;

    double inverse = packDouble2x32(uvec2(depth.zw));
    precise double w1 = to_double(e1) * inverse, w2 = to_double(e2) * inverse;
    precise double d1 = w1 * double(depth.x), d2 = w2 * double(depth.y);
    precise double depth_offset = d1 + d2;  // from corner 0
    precise double l1 = w1 * 1073741824.0lf, l2 = w2 * 1073741824.0lf;

    // A fragment beyond the capacity still marks its ray, so that the second pass counts the right number of fragments
    // and the next attempt has enough capacity.
    uint i = atomicAdd(n_fragments, 1u), next = atomicExchange(head[ray], i);
    if (i >= capacity) return;
    uint key = uint(target.x + round_int(depth_offset) + (1 << 29)) << 1 | uint(is_entering);
    fragments[i] = Fragment(key, uint(round_int(l1)), uint(round_int(l2)), tag, next);
}
