#version 450 core
flat in vec3 tint; // linear
out vec4 color;

void main() { color = vec4(tint, 1); }
