#version 450 core
// Draws the marks that are opaque (picture.h). Points, lines, arrows and edges face the camera and are as thick as their
// size says, in pixels; so they are made in the picture's plane, with their ends' depths.
const int POINT = 1, LINE = 2, ARROW = 3, TILE = 4; // ct_mark_kind
const int FACES = 36;                               // corners of a cube's faces; those of its edges follow
const float FARTHER = 5e-4;                         // of the depth's range: faces, so that edges are seen
const int WORDS = 14;                               // of a ct_mark

layout(std430, binding = 0) readonly buffer Marks { uint marks[]; };

layout(location = 0) uniform mat4 camera; // world relative to the camera's origin -> clip space
layout(location = 1) uniform int kind;
layout(location = 2) uniform int corners;  // of a mark: vertices
layout(location = 3) uniform vec2 viewport; // samples
layout(location = 4) uniform float scale;   // samples along a pixel

flat out vec3 tint;

uint first; // word of the mark

vec3 point(int i) {
    uint at = first + 3 * uint(i);
    return uintBitsToFloat(uvec3(marks[at], marks[at + 1], marks[at + 2]));
}

vec3 to_linear(vec3 c) { return mix(c / 12.92, pow((c + 0.055) / 1.055, vec3(2.4)), greaterThan(c, vec3(0.04045))); }

// The part of a line that is before the eye, in samples and depth. False: there is none.
bool project(vec3 from, vec3 to, out vec3 a, out vec3 b) {
    vec4 p = camera * vec4(from, 1), q = camera * vec4(to, 1);
    float least = 1e-4 * max(abs(p.w), abs(q.w));
    if (max(p.w, q.w) <= least) return false;
    if (p.w < least) p = mix(p, q, (least - p.w) / (q.w - p.w));
    if (q.w < least) q = mix(q, p, (least - q.w) / (p.w - q.w));
    a = vec3(p.xy / p.w * 0.5 * viewport, p.z / p.w);
    b = vec3(q.xy / q.w * 0.5 * viewport, q.z / q.w);
    return true;
}

vec4 at_samples(vec3 p) { return vec4(p.xy / (0.5 * viewport), p.z, 1); }

// Corner 0..5 of a line that is `width` samples thick and this much longer at both ends.
vec3 line_corner(vec3 a, vec3 b, float width, float longer, int corner) {
    vec2 d = b.xy - a.xy;
    float size = length(d);
    vec2 along = size > 1e-6 ? d / size : vec2(1, 0), across = vec2(-along.y, along.x);
    const int end[6] = int[](0, 1, 1, 0, 1, 0), side[6] = int[](-1, -1, 1, -1, 1, 1);
    vec3 p = end[corner] == 0 ? a : b;
    p.xy += along * longer * (end[corner] == 0 ? -1 : 1) + across * (0.5 * width * side[corner]);
    return p;
}

vec4 arrow_corner(vec3 a, vec3 b, float width, int corner) {
    float size = length(b.xy - a.xy), head = min(4 * width, 0.6 * size);
    vec3 neck = mix(b, a, size > 1e-6 ? head / size : 0.0);
    if (corner < 6) return at_samples(line_corner(a, neck, width, size > width ? 0.0 : 0.5 * width, corner));
    vec2 along = size > 1e-6 ? (b.xy - a.xy) / size : vec2(1, 0), across = vec2(-along.y, along.x);
    if (corner == 8) return at_samples(b);
    neck.xy += across * head * (corner == 6 ? -0.42 : 0.42);
    return at_samples(neck);
}

// Faces are paler than the edges, and differ from each other, as if lit.
void draw_face(int corner, vec2 s) {
    int face = corner / 6, axis = face / 2;
    vec3 origin = point(0), u = point(1 + (axis + 1) % 3) - origin, v = point(1 + (axis + 2) % 3) - origin;
    vec3 across = (face & 1) != 0 ? point(1 + axis) - origin : vec3(0);
    const float shade[3] = float[](0.88, 0.8, 1);
    tint = mix(tint, vec3(1), 0.45) * shade[axis];
    gl_Position = camera * vec4(origin + across + s.x * u + s.y * v, 1);
    gl_Position.z += FARTHER * gl_Position.w;
}

void main() {
    int corner = gl_VertexID % corners;
    first = uint(gl_VertexID / corners) * WORDS;
    tint = to_linear(unpackUnorm4x8(marks[first + 12]).rgb);
    float width = uintBitsToFloat(marks[first + 13]) * scale;
    const vec2 square[6] = vec2[](vec2(0, 0), vec2(1, 0), vec2(1, 1), vec2(0, 0), vec2(1, 1), vec2(0, 1));
    if (kind == TILE) {
        vec3 origin = point(0);
        vec2 s = square[corner];
        gl_Position = camera * vec4(origin + s.x * (point(1) - origin) + s.y * (point(2) - origin), 1);
        return;
    }
    vec3 from = point(0), to = kind == POINT ? from : point(1);
    if (kind > TILE && corner < FACES) {
        draw_face(corner, square[corner % 6]);
        return;
    }
    if (kind > TILE) { // a cube's edge
        corner -= FACES;
        int edge = corner / 6, axis = edge / 4;
        vec3 origin = from, along = point(1 + axis) - origin;
        if ((edge & 1) != 0) from += point(1 + (axis + 1) % 3) - origin;
        if ((edge & 2) != 0) from += point(1 + (axis + 2) % 3) - origin;
        to = from + along;
        corner %= 6;
    }
    vec3 a, b;
    if (!project(from, to, a, b))
        gl_Position = vec4(2, 2, 2, 1); // outside the picture
    else if (kind == ARROW)
        gl_Position = arrow_corner(a, b, width, corner);
    else
        gl_Position = at_samples(line_corner(a, b, width, 0.5 * width, corner));
}
