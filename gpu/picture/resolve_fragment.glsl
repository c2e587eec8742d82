#version 450 core
// Glass, front to back, over samples over the background; many samples to a pixel; linear light to sRGB.
struct Piece {
    uvec2 color;
    float depth;
    uint next;
};
layout(std430, binding = 3) readonly buffer Pieces { Piece pieces[]; };
layout(std430, binding = 4) readonly buffer Heads { uint n_pieces; uint heads[]; };
layout(binding = 0) uniform sampler2D solid; // alpha 1 where there is something

layout(location = 0) uniform int scale;
layout(location = 1) uniform vec4 background; // linear
layout(location = 2) uniform uint width;      // of a row of heads; 0: there is no glass
out vec4 pixel;

// Whether piece a comes before b: of pieces at one place the colour decides, so that the order in which they were put
// into the list does not.
bool before(uint a, uint b) {
    if (pieces[a].depth != pieces[b].depth) return pieces[a].depth < pieces[b].depth;
    uvec2 p = pieces[a].color, q = pieces[b].color;
    return p.x != q.x ? p.x < q.x : p.y < q.y;
}

// What the glass of a sample adds, and in alpha what it lets through. Lists are short, so each next piece is looked for
// anew; there may be any number.
vec4 through(uint head) {
    vec4 sum = vec4(0, 0, 0, 1);
    uint last = 0;
    while (sum.a > 0.002) {
        uint next = 0, same = 0;
        for (uint i = head; i != 0; i = pieces[i].next) {
            if (last != 0 && !before(last, i)) continue;
            if (next == 0 || before(i, next)) {
                next = i;
                same = 1;
            } else if (!before(next, i)) {
                same++;
            }
        }
        if (next == 0) break;
        vec2 rg = unpackHalf2x16(pieces[next].color.x), ba = unpackHalf2x16(pieces[next].color.y);
        for (; same > 0; same--) {
            sum.rgb += sum.a * vec3(rg, ba.x);
            sum.a *= 1 - ba.y;
        }
        last = next;
    }
    return sum;
}

void main() {
    vec4 sum = vec4(0);
    ivec2 first = ivec2(gl_FragCoord.xy) * scale;
    for (int y = 0; y < scale; y++)
        for (int x = 0; x < scale; x++) {
            ivec2 here = first + ivec2(x, y);
            vec4 stop = texelFetch(solid, here, 0);
            vec4 behind = stop.a > 0.5 ? vec4(stop.rgb, 1) : vec4(background.rgb * background.a, background.a);
            vec4 over = width == 0u ? vec4(0, 0, 0, 1) : through(heads[uint(here.y) * width + uint(here.x)]);
            sum += vec4(over.rgb + over.a * behind.rgb, 1 - over.a + over.a * behind.a);
        }
    sum /= scale * scale;
    vec3 linear = clamp(sum.a > 0 ? sum.rgb / sum.a : vec3(0), 0, 1);
    vec3 coded = mix(12.92 * linear, 1.055 * pow(linear, vec3(1 / 2.4)) - 0.055, greaterThan(linear, vec3(0.0031308)));
    pixel = vec4(coded, sum.a);
}
