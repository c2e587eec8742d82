#version 450 core
// Draws each span end as a square perpendicular to its ray: six vertices, two triangles.
layout(std430, binding = 0) readonly buffer SpanEnds { vec4 span_ends[]; }; // xyz: position; w: 2 * axis + is_upper

layout(location = 0) uniform mat4 camera; // world relative to the camera's origin -> clip space
layout(location = 1) uniform vec3 half_side; // of the squares, along x, y, z

out vec3 at;
flat out vec3 normal;
flat out int axis;

void main() {
    const vec2 corners[6] = vec2[](vec2(-1, -1), vec2(1, -1), vec2(1, 1), vec2(-1, -1), vec2(1, 1), vec2(-1, 1));
    vec4 span_end = span_ends[gl_VertexID / 6];
    vec2 corner = corners[gl_VertexID % 6];
    int code = int(span_end.w);
    axis = code / 2;
    vec3 offset = vec3(0);
    offset[(axis + 1) % 3] = corner.x;
    offset[(axis + 2) % 3] = corner.y;
    normal = vec3(0);
    normal[axis] = (code & 1) != 0 ? 1 : -1;
    at = span_end.xyz + offset * half_side;
    gl_Position = camera * vec4(at, 1);
}
