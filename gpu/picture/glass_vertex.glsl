#version 450 core
// A body's triangles, taken from its arrays: corner by corner, so that edges sharper than 30 degrees stay sharp.
layout(std430, binding = 0) readonly buffer Positions { float positions[]; };
layout(std430, binding = 1) readonly buffer Normals { float normals[]; };
layout(std430, binding = 2) readonly buffer Triangles { uint triangles[]; };

layout(location = 0) uniform mat4 camera; // from the world around the origin
layout(location = 1) uniform mat4 body;   // to there

out vec3 at;
out vec3 normal;

vec3 position(uint v) { return vec3(positions[3 * v], positions[3 * v + 1], positions[3 * v + 2]); }

void main() {
    uint corner = uint(gl_VertexID), first = corner - corner % 3;
    vec3 a = position(triangles[first]), b = position(triangles[first + 1]), c = position(triangles[first + 2]);
    uint v = triangles[corner];
    vec3 flat_normal = cross(b - a, c - a);
    float size = length(flat_normal);
    if (size > 0) flat_normal /= size;
    vec3 smooth_normal = vec3(normals[3 * v], normals[3 * v + 1], normals[3 * v + 2]);
    normal = mat3(body) * (dot(flat_normal, smooth_normal) > 0.866 ? smooth_normal : flat_normal);
    at = (body * vec4(position(v), 1)).xyz;
    gl_Position = camera * vec4(at, 1);
}
