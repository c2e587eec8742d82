#version 450 core
// Shades a span end in the colour of its ray's axis.
layout(location = 2) uniform vec3 eye;
layout(location = 3) uniform vec3 colors[3];
layout(location = 6) uniform vec3 light;
layout(location = 7) uniform float per_size; // as in glass_vertex.glsl

in vec3 at;
flat in vec3 normal;
flat in int axis;
out vec4 color;

void main() {
    float along = abs(dot(normalize((eye - at) * per_size), normal)), lit = 0.5 + 0.5 * dot(normal, light);
    color = vec4(colors[axis] * (0.55 + 0.3 * along + 0.25 * lit), 1);
}
