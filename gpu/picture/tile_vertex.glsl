#version 450 core
// The ends of spans: a square across the ray, two triangles each.
layout(std430, binding = 0) readonly buffer Tiles { vec4 tiles[]; }; // where, and 2 * axis + (is the upper end)

layout(location = 0) uniform mat4 camera;
layout(location = 1) uniform vec3 reach; // half a square's sides along x, y, z

out vec3 at;
flat out vec3 normal;
flat out int axis;

void main() {
    const vec2 corners[6] = vec2[](vec2(-1, -1), vec2(1, -1), vec2(1, 1), vec2(-1, -1), vec2(1, 1), vec2(-1, 1));
    vec4 tile = tiles[gl_VertexID / 6];
    vec2 corner = corners[gl_VertexID % 6];
    int code = int(tile.w);
    axis = code / 2;
    vec3 offset = vec3(0);
    offset[(axis + 1) % 3] = corner.x;
    offset[(axis + 2) % 3] = corner.y;
    normal = vec3(0);
    normal[axis] = (code & 1) != 0 ? 1 : -1;
    at = tile.xyz + offset * reach;
    gl_Position = camera * vec4(at, 1);
}
