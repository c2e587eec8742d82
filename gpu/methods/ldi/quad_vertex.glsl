#version 450 core
// quad_vertex.glsl - places each quad's rectangle of samples (gpu/methods/ldi/quad_k.h) in its draw region, four vertices
// a quad. The two triangles of a rectangle share their last vertex, the provoking one: only it passes the triangle's
// data to the fragment shader, as flat values.

struct Quad {
    ivec4 corners;  // xb, yb, xc, yc
    ivec4 first;    // x0, y0, z0, tag
    ivec4 depth;    // dz1, dz2, inverse as two words
    uvec4 samples;  // u0 | u1 << 16, v0 | v1 << 16, region, flags
};

struct Region {  // ct_draw_region
    int left, bottom, columns, first_row, rows, first_ray, shift_u, shift_v;
};

layout(std430, binding = 0) readonly restrict buffer Quads {
    Quad quads[];
};
layout(std430, binding = 1) readonly restrict buffer Regions {
    Region regions[];
};
layout(location = 0) uniform vec2 pixel;  // 2 over the framebuffer's width and height

flat out ivec4 corners;
flat out ivec4 sampling;  // lattice units: the sample of pixel (0, 0) relative to corner 0; log2 of the samples' pitch
flat out ivec4 depth;
flat out ivec4 target;    // z0, tag, index of the ray of pixel (0, 0), rays in a row
flat out uvec3 area;      // twice the triangle's area as two words, the high one first; flags

invariant gl_Position;

const int PROVOKING = 3;

void main() {
    int i = gl_VertexID >> 2, corner = gl_VertexID & 3;
    uvec4 samples = quads[i].samples;
    ivec2 low = ivec2(samples.xy & 0xffffu), high = ivec2(samples.xy >> 16);
    ivec2 origin = ivec2(regions[samples.z].left, regions[samples.z].bottom - regions[samples.z].first_row);
    ivec2 at = origin + ivec2((corner & 1) != 0 ? high.x : low.x, (corner & 2) != 0 ? high.y : low.y);
    gl_Position = vec4(vec2(at) * pixel - 1.0, 0.0, 1.0);

    corners = sampling = depth = target = ivec4(0);
    area = uvec3(0u);
    if (corner != PROVOKING) return;
    Quad p = quads[i];
    Region r = regions[samples.z];
    corners = p.corners;
    depth = p.depth;
    // These may overflow and wrap around. The fragment shader adds the pixel's part modulo 2^32, and the sums do fit.
    sampling.x = ((1 - 2 * r.left) << (r.shift_u - 1)) - p.first.x;
    sampling.y = ((1 - 2 * (r.bottom - r.first_row)) << (r.shift_v - 1)) - p.first.y;
    sampling.zw = ivec2(r.shift_u, r.shift_v);
    target = ivec4(p.first.zw, r.first_ray - r.bottom * r.columns - r.left, r.columns);

    bool clockwise = (p.samples.w & 8u) != 0u;
    int high1, high2, low1, low2;
    imulExtended(p.corners.x, p.corners.w, high1, low1);
    imulExtended(p.corners.z, p.corners.y, high2, low2);
    uint borrow;
    uint low_word = clockwise ? usubBorrow(uint(low2), uint(low1), borrow) : usubBorrow(uint(low1), uint(low2), borrow);
    int high_word = (clockwise ? high2 - high1 : high1 - high2) - int(borrow);
    area = uvec3(uint(high_word), low_word, p.samples.w);
}
