#version 450 core
// A layer, to be blended under those in front of it.
layout(binding = 0) uniform sampler2D layer;
out vec4 color;
void main() { color = texelFetch(layer, ivec2(gl_FragCoord.xy), 0); }
