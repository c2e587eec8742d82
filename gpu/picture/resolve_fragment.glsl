#version 450 core
// Glass over samples over the background; many samples to a pixel; linear light to sRGB.
layout(binding = 0) uniform sampler2D glass;  // premultiplied; alpha is what it lets through
layout(binding = 1) uniform sampler2D opaque; // alpha 1 where there is something
layout(location = 0) uniform int scale;
layout(location = 1) uniform vec4 background; // linear
out vec4 pixel;

void main() {
    vec4 sum = vec4(0);
    ivec2 first = ivec2(gl_FragCoord.xy) * scale;
    for (int y = 0; y < scale; y++)
        for (int x = 0; x < scale; x++) {
            vec4 over = texelFetch(glass, first + ivec2(x, y), 0), solid = texelFetch(opaque, first + ivec2(x, y), 0);
            vec4 behind = solid.a > 0.5 ? vec4(solid.rgb, 1) : vec4(background.rgb * background.a, background.a);
            sum += vec4(over.rgb + over.a * behind.rgb, 1 - over.a + over.a * behind.a);
        }
    sum /= scale * scale;
    vec3 linear = clamp(sum.a > 0 ? sum.rgb / sum.a : vec3(0), 0, 1);
    pixel = vec4(mix(12.92 * linear, 1.055 * pow(linear, vec3(1 / 2.4)) - 0.055, greaterThan(linear, vec3(0.0031308))), sum.a);
}
