#version 450 core
// Computes a pixel: blends each sample's glass layers front to back over span ends, marks and background, averages the
// pixel's scale x scale samples, and converts linear light to sRGB.
struct Layer { // as in glass_fragment.glsl
    uvec2 color;
    float depth;
    uint next;
};
layout(std430, binding = 3) readonly buffer Layers { Layer layers[]; };
layout(std430, binding = 4) readonly buffer Heads { uint n_layers; uint heads[]; };
layout(binding = 0) uniform sampler2D solid; // span ends and marks; alpha 1 where one is visible

layout(location = 0) uniform int scale;
layout(location = 1) uniform vec4 background; // linear
layout(location = 2) uniform uint width;      // samples in a row of heads; 0: no glass is drawn
out vec4 pixel;

// Orders layers of one depth by colour, which makes the order independent of the order in which the GPU's threads appended
// the layers, so that a picture has the same pixels every time.
bool has_lesser_color(uint a, uint b) {
    uvec2 p = layers[a].color, q = layers[b].color;
    return p.x != q.x ? p.x < q.x : p.y < q.y;
}

// Returns the colour that a sample's glass adds, and in alpha the fraction of light it transmits. Each walk along the list
// finds the nearest SORTED layers behind those before, so there is no limit on the number of layers; equal ones are found as
// one, and blended `same` times. Stops at 0.2 % transmission, where further layers are practically invisible.
const int SORTED = 8;
vec4 blend_glass(uint head) {
    vec4 sum = vec4(0, 0, 0, 1);
    uint last = 0;
    float last_depth = -1;
    while (sum.a > 0.002) {
        uint found[SORTED], same[SORTED];
        float depths[SORTED];
        for (int k = 0; k < SORTED; k++) found[k] = same[k] = 0, depths[k] = 2; // nothing is so far
        for (uint i = head; i != 0; i = layers[i].next) {
            float depth = layers[i].depth;
            if (depth < last_depth || (depth == last_depth && !has_lesser_color(last, i))) continue;
            // Each place keeps the nearer of what it has and what comes, and hands on the other one.
            uint more = i, count = 1;
            for (int k = 0; k < SORTED; k++) {
                if (depth > depths[k] || more == 0) continue;
                const uint had = found[k], had_same = same[k];
                const float had_depth = depths[k];
                if (depth == had_depth && !has_lesser_color(more, had)) {
                    if (has_lesser_color(had, more)) continue;
                    same[k] += count;
                    more = 0;
                    continue;
                }
                found[k] = more, same[k] = count, depths[k] = depth;
                more = had, count = had_same, depth = had_depth;
            }
        }
        for (int k = 0; k < SORTED && sum.a > 0.002; k++) {
            if (found[k] == 0) return sum;
            last = found[k];
            last_depth = depths[k];
            vec2 rg = unpackHalf2x16(layers[last].color.x), ba = unpackHalf2x16(layers[last].color.y);
            for (; same[k] > 0; same[k]--) {
                sum.rgb += sum.a * vec3(rg, ba.x);
                sum.a *= 1 - ba.y;
            }
        }
    }
    return sum;
}

void main() {
    vec4 sum = vec4(0);
    ivec2 first = ivec2(gl_FragCoord.xy) * scale;
    for (int y = 0; y < scale; y++)
        for (int x = 0; x < scale; x++) {
            ivec2 here = first + ivec2(x, y);
            vec4 end = texelFetch(solid, here, 0);
            vec4 behind = end.a > 0.5 ? vec4(end.rgb, 1) : vec4(background.rgb * background.a, background.a);
            vec4 glass = width == 0u ? vec4(0, 0, 0, 1) : blend_glass(heads[uint(here.y) * width + uint(here.x)]);
            sum += vec4(glass.rgb + glass.a * behind.rgb, 1 - glass.a + glass.a * behind.a);
        }
    sum /= scale * scale;
    vec3 linear = clamp(sum.a > 0 ? sum.rgb / sum.a : vec3(0), 0, 1);
    vec3 coded = mix(12.92 * linear, 1.055 * pow(linear, vec3(1 / 2.4)) - 0.055, greaterThan(linear, vec3(0.0031308)));
    pixel = vec4(coded, sum.a);
}
