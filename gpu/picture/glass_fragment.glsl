#version 450 core
// One layer of glass: what is behind the layers peeled so far, lit, and denser where it is seen from the side.
layout(location = 2) uniform vec3 eye;
layout(location = 3) uniform vec3 color;
layout(location = 4) uniform float opacity;
layout(location = 5) uniform vec3 light; // direction towards it
layout(location = 6) uniform bool peeling;
layout(binding = 0) uniform sampler2D peeled; // depth of the layer before
layout(binding = 1) uniform sampler2D solid;  // depth of what is not glass

in vec3 at;
in vec3 normal;
out vec4 layer; // premultiplied

void main() {
    ivec2 here = ivec2(gl_FragCoord.xy);
    if (gl_FragCoord.z >= texelFetch(solid, here, 0).r) discard;
    if (peeling && gl_FragCoord.z <= texelFetch(peeled, here, 0).r) discard;
    vec3 view = normalize(eye - at), n = normalize(normal);
    if (!gl_FrontFacing) n = -n;
    float along = clamp(dot(n, view), 0, 1), rim = pow(1 - along, 3);
    float diffuse = 0.5 + 0.5 * dot(n, light);
    vec3 lit = color * (0.15 + 0.95 * diffuse * diffuse);
    float alpha = mix(opacity, 1 - (1 - opacity) * (1 - opacity), rim);
    if (!gl_FrontFacing) {
        lit *= 0.75;
        alpha *= mix(0.6, 1, opacity);
    } else {
        float shine = pow(clamp(dot(n, normalize(light + view)), 0, 1), 60);
        lit += 0.35 * shine;
        alpha = mix(alpha, 1, 0.3 * shine);
    }
    layer = vec4(lit * alpha, alpha);
}
