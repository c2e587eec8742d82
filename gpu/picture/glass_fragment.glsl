#version 450 core
// Shades one layer of glass, more opaque at grazing angles, and pushes it onto the linked list of its sample (Yang et
// al. 2010, "Real-time concurrent linked list construction on the GPU"); resolve_fragment.glsl sorts and blends the
// lists. The depth test runs first, so layers behind span ends are never stored.
layout(early_fragment_tests) in;

struct Layer {
    uvec2 color; // premultiplied red, green, blue and alpha as halves
    float depth;
    uint next; // index of the next layer of the sample; 0: end of the list
};
layout(std430, binding = 3) buffer Layers { Layer layers[]; }; // layers[0] is not used
// heads[] is row by row. n_layers also counts layers that did not fit, so that the next attempt allocates enough.
layout(std430, binding = 4) buffer Heads { uint n_layers; uint heads[]; };

layout(location = 2) uniform vec3 eye;
layout(location = 5) uniform vec3 light; // direction towards the light
layout(location = 6) uniform uint width; // samples in a row of heads
layout(location = 7) uniform float per_size;

in vec3 at;
in vec3 normal;
flat in vec4 tint; // linear; opacity seen face on

void main() {
    uint index = atomicAdd(n_layers, 1u) + 1u;
    if (index >= uint(layers.length())) return;
    vec3 view = normalize((eye - at) * per_size), n = normalize(normal);
    if (dot(normal, normal) == 0) n = view;
    if (!gl_FrontFacing) n = -n;
    float along = clamp(dot(n, view), 0, 1), rim = (1 - along) * (1 - along);
    float opacity = tint.a;
    float diffuse = 0.5 + 0.5 * dot(n, light);
    vec3 lit = tint.rgb * (0.1 + 0.9 * diffuse * diffuse);
    float clear = 1 - opacity, alpha = mix(opacity, 1 - clear * clear * clear, rim);
    if (dot(normal, normal) == 0) { // a colour that says something is shown as it is
        lit = tint.rgb;
    } else if (!gl_FrontFacing) {
        lit *= 0.75;
        alpha *= mix(0.6, 1, opacity);
    } else {
        float shine = pow(clamp(dot(n, normalize(light + view)), 0, 1), 60);
        lit += 0.35 * shine;
        alpha = mix(alpha, 1, 0.3 * shine);
    }
    uvec2 here = uvec2(gl_FragCoord.xy);
    layers[index].color = uvec2(packHalf2x16(lit.rg * alpha), packHalf2x16(vec2(lit.b * alpha, alpha)));
    layers[index].depth = gl_FragCoord.z;
    layers[index].next = atomicExchange(heads[here.y * width + here.x], index);
}
