#version 450 core
// patch_vertex.glsl - a rectangle of samples for each patch (gpu/raster/patch.h), at pixels of its tile; four vertices
// each. What the fragment shader needs of the triangle goes to it unchanged, with the vertex that both halves of the
// rectangle take their flat values from.

struct Patch {
    ivec4 corners;  // xb, yb, xc, yc
    ivec4 first;    // x0, y0, z0, tag
    ivec4 depth;    // dz1, dz2, inverse as two words
    uvec4 place;    // u0 | u1 << 16, v0 | v1 << 16, tile, flags
};

struct Tile {
    int left, bottom, columns, first_row, rows, first_ray, shift_u, shift_v;
};

layout(std430, binding = 0) readonly restrict buffer Patches {
    Patch patches[];
};
layout(std430, binding = 1) readonly restrict buffer Tiles {
    Tile tiles[];
};
layout(location = 0) uniform vec2 pixel;  // 2 over the picture's width and height

flat out ivec4 corners;
flat out ivec4 sampling;  // the sample of pixel (0, 0) relative to corner 0, log2 of the distance from pixel to pixel
flat out ivec4 depth;
flat out ivec4 target;    // z0, tag, index of the ray of pixel (0, 0), rays in a row
flat out uvec3 area;      // twice the area, high word and low; flags

invariant gl_Position;

const int PROVOKING = 3;

void main() {
    int i = gl_VertexID >> 2, corner = gl_VertexID & 3;
    uvec4 place = patches[i].place;
    ivec2 low = ivec2(place.xy & 0xffffu), high = ivec2(place.xy >> 16);
    ivec2 tile = ivec2(tiles[place.z].left, tiles[place.z].bottom - tiles[place.z].first_row);
    ivec2 at = tile + ivec2((corner & 1) != 0 ? high.x : low.x, (corner & 2) != 0 ? high.y : low.y);
    gl_Position = vec4(vec2(at) * pixel - 1.0, 0.0, 1.0);

    corners = sampling = depth = target = ivec4(0);
    area = uvec3(0u);
    if (corner != PROVOKING) return;
    Patch p = patches[i];
    Tile t = tiles[place.z];
    corners = p.corners;
    depth = p.depth;
    // Integers wrap around; the differences that the fragment shader makes of these do not.
    sampling.x = ((1 - 2 * t.left) << (t.shift_u - 1)) - p.first.x;
    sampling.y = ((1 - 2 * (t.bottom - t.first_row)) << (t.shift_v - 1)) - p.first.y;
    sampling.zw = ivec2(t.shift_u, t.shift_v);
    target = ivec4(p.first.zw, t.first_ray - t.bottom * t.columns - t.left, t.columns);

    bool clockwise = (p.place.w & 8u) != 0u;
    int high1, high2, low1, low2;
    imulExtended(p.corners.x, p.corners.w, high1, low1);
    imulExtended(p.corners.z, p.corners.y, high2, low2);
    uint borrow;
    uint low_word = clockwise ? usubBorrow(uint(low2), uint(low1), borrow) : usubBorrow(uint(low1), uint(low2), borrow);
    int high_word = (clockwise ? high2 - high1 : high1 - high2) - int(borrow);
    area = uvec3(uint(high_word), low_word, p.place.w);
}
