#version 450 core
// A piece of glass, lit, and denser where it is seen from the side: put into the list of its sample, to be sorted later.
// What is behind something solid does not come here.
layout(early_fragment_tests) in;

struct Piece {
    uvec2 color; // premultiplied red, green, blue and alpha as halves
    float depth;
    uint next; // 0: none
};
layout(std430, binding = 3) buffer Pieces { Piece pieces[]; };           // the first is not used
layout(std430, binding = 4) buffer Heads { uint n_pieces; uint heads[]; }; // row by row; counts on when there is no room

layout(location = 2) uniform vec3 eye;
layout(location = 3) uniform vec3 color;
layout(location = 4) uniform float opacity;
layout(location = 5) uniform vec3 light; // direction towards it
layout(location = 6) uniform uint width; // of a row

in vec3 at;
in vec3 normal;

void main() {
    uint place = atomicAdd(n_pieces, 1u) + 1u;
    if (place >= uint(pieces.length())) return;
    vec3 view = normalize(eye - at), n = normalize(normal);
    if (!gl_FrontFacing) n = -n;
    float along = clamp(dot(n, view), 0, 1), rim = (1 - along) * (1 - along);
    float diffuse = 0.5 + 0.5 * dot(n, light);
    vec3 lit = color * (0.1 + 0.9 * diffuse * diffuse);
    float clear = 1 - opacity, alpha = mix(opacity, 1 - clear * clear * clear, rim);
    if (!gl_FrontFacing) {
        lit *= 0.75;
        alpha *= mix(0.6, 1, opacity);
    } else {
        float shine = pow(clamp(dot(n, normalize(light + view)), 0, 1), 60);
        lit += 0.35 * shine;
        alpha = mix(alpha, 1, 0.3 * shine);
    }
    uvec2 here = uvec2(gl_FragCoord.xy);
    pieces[place].color = uvec2(packHalf2x16(lit.rg * alpha), packHalf2x16(vec2(lit.b * alpha, alpha)));
    pieces[place].depth = gl_FragCoord.z;
    pieces[place].next = atomicExchange(heads[here.y * width + here.x], place);
}
