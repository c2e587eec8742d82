#version 450 core
// Fetches the corners of films (picture.h), which are layers of glass with a colour and opacity of their own.
const int WORDS = 14; // of a ct_mark
const float NEARER = 2e-5; // of the depth's range: a film lies on a body's surface, and is drawn before it

layout(std430, binding = 0) readonly buffer Marks { uint marks[]; };

layout(location = 0) uniform mat4 camera; // world relative to the camera's origin -> clip space
layout(location = 7) uniform float per_size; // as in glass_vertex.glsl

out vec3 at;
out vec3 normal;
flat out vec4 tint;

vec3 corner(uint mark, int i) {
    uint first = mark * WORDS + 3 * uint(i);
    return uintBitsToFloat(uvec3(marks[first], marks[first + 1], marks[first + 2]));
}

vec3 to_linear(vec3 c) { return mix(c / 12.92, pow((c + 0.055) / 1.055, vec3(2.4)), greaterThan(c, vec3(0.04045))); }

void main() {
    uint mark = uint(gl_VertexID / 3);
    vec3 a = corner(mark, 0), b = corner(mark, 1), c = corner(mark, 2);
    vec3 across = cross((b - a) * per_size, (c - a) * per_size);
    float size = length(across);
    bool is_lit = marks[mark * WORDS + 13] == 0; // its size
    normal = !is_lit ? vec3(0) : size > 0 ? across / size : vec3(0, 0, 1);
    vec4 color = unpackUnorm4x8(marks[mark * WORDS + 12]);
    tint = vec4(to_linear(color.rgb), color.a);
    at = corner(mark, gl_VertexID % 3);
    gl_Position = camera * vec4(at, 1);
    gl_Position.z -= NEARER * gl_Position.w;
}
