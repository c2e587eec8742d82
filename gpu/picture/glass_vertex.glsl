#version 450 core
// Fetches a body's triangle corners from storage buffers. Each corner chooses its own normal: the face's where it
// differs from the vertex's by more than 30 degrees, so that sharp edges are not shaded smooth.
layout(std430, binding = 0) readonly buffer Positions { float positions[]; };
layout(std430, binding = 1) readonly buffer Normals { float normals[]; };
layout(std430, binding = 2) readonly buffer Triangles { uint triangles[]; };

layout(location = 0) uniform mat4 camera; // world relative to the camera's origin -> clip space
layout(location = 1) uniform mat4 body;   // the body's frame -> world relative to the camera's origin
layout(location = 3) uniform vec3 color;
layout(location = 4) uniform float opacity;
layout(location = 7) uniform float per_size; // a power of two: products of lengths times it are neither 0 nor infinite

out vec3 at;
out vec3 normal;
flat out vec4 tint;

vec3 position(uint v) { return vec3(positions[3 * v], positions[3 * v + 1], positions[3 * v + 2]); }

void main() {
    uint corner = uint(gl_VertexID), first = corner - corner % 3;
    vec3 a = position(triangles[first]), b = position(triangles[first + 1]), c = position(triangles[first + 2]);
    uint v = triangles[corner];
    vec3 flat_normal = cross((b - a) * per_size, (c - a) * per_size);
    float size = length(flat_normal);
    if (size > 0) flat_normal /= size;
    vec3 smooth_normal = vec3(normals[3 * v], normals[3 * v + 1], normals[3 * v + 2]);
    normal = mat3(body) * (dot(flat_normal, smooth_normal) > 0.866 ? smooth_normal : flat_normal); // cos 30 degrees
    tint = vec4(color, opacity);
    at = (body * vec4(position(v), 1)).xyz;
    gl_Position = camera * vec4(at, 1);
}
