// trycode.js - the same overlap as a program: Python, C, curl.
const matrix = (pose) => [0, 4, 8].map((i) => `[${pose.slice(i, i + 4).join(", ")}]`);

function python(slots, method) {
  const lines = ["import contactd", "", "client = contactd.connect()   # or with the server's address"];
  for (const slot of slots) {
    const query = new URLSearchParams(slot.query);
    const more = [...query].map(([key, value]) => (key === "repair" ? ", repair=True" : `, ${key}=${key === "scale" ? value : `"${value}"`}`));
    lines.push(`${slot.name} = client.load("${slot.file?.name ?? `${slot.mesh.name || slot.name}.stl`}"${more.join("")})`);
  }
  for (const slot of slots) lines.push(`pose_${slot.name} = [${matrix(slot.pose).join(",\n          ")}]`);
  if (method === "ebpi") {
    lines.push("scene = client.open_scene(method=\"ebpi\", tolerance_rel=0.01)",
      "scene.add_body(a, pose_a)", "scene.add_body(b, pose_b)", "for contact in scene.step().contacts:",
      "    print(contact.volume, contact.normal, contact.center)");
  } else {
    lines.push(`overlap = client.overlap(a, b, pose_a, pose_b, method="${method}")`,
      "print(overlap.volume, overlap.depth, overlap.normal, overlap.center)");
  }
  return lines.join("\n");
}

function c(slots, method) {
  const poses = slots.map((slot) => `    const double pose_${slot.name}[12] = {${slot.pose.join(", ")}};`);
  const uses = slots.map((slot) => `        contactd_use_mesh(client, "${slot.mesh.hash}", &${slot.name}) ||`);
  return `/* cc overlap.c $(pkg-config --cflags --libs contactd) -o overlap */
#include <contactd.h>
#include <stdio.h>

int main(void) {
    contactd_options options;
    contactd_client *client;
    contactd_error error;
    contactd_mesh a, b;
    contactd_settings settings;
    contactd_overlap overlap;
${poses.join("\n")}
    contactd_options_init(&options);
    contactd_settings_init(&settings);
    settings.method = CT_METHOD_${(method === "ebpi" ? "exact" : method).toUpperCase()};${method === "ebpi" ? " /* ebpi needs a scene, with a tolerance */" : ""}
    if (contactd_connect(&options, &client, &error)) return 1;
    if (${uses.join("\n").trim()}
        contactd_find_overlap(client, a, pose_a, b, pose_b, &settings, &overlap)) {
        fprintf(stderr, "%s\\n", contactd_last_error(client)->message);
        return 1;
    }
    printf("%.9g m^3, normal %g %g %g\\n", overlap.volume, overlap.normal[0], overlap.normal[1], overlap.normal[2]);
    contactd_close(&client);
    return 0;
}`;
}

function curl(slots, method, base) {
  const lines = [`V1=${base}v1   # with a token: add -H "Authorization: Bearer $TOKEN"`];
  for (const slot of slots) {
    if (slot.file) lines.push(`curl --data-binary @'${slot.file.name}' -H 'Content-Type: application/octet-stream' "$V1/meshes${slot.query ? `?${slot.query}` : ""}"`);
  }
  const json = (value) => `-H 'Content-Type: application/json' -d '${JSON.stringify(value)}'`;
  const placed = (slot) => ({ mesh: slot.mesh.hash, pose: slot.pose });
  if (method === "ebpi") {
    lines.push(`SCENE=$(curl -s "$V1/scenes" ${json({ method: "ebpi", tolerance_rel: 0.01 })} | sed 's/.*"id": *\\([0-9]*\\).*/\\1/')`);
    for (const slot of slots) lines.push(`curl "$V1/scenes/$SCENE/bodies" ${json(placed(slot))}`);
    lines.push(`curl "$V1/scenes/$SCENE/step" ${json({})}`, "curl -X DELETE \"$V1/scenes/$SCENE\"");
  } else {
    lines.push(`curl "$V1/overlap" ${json({ a: placed(slots[0]), b: placed(slots[1]), method })}`);
  }
  return lines.join("\n");
}

// slots: two of slot.js, with meshes. base: the server's address.
export const programs = (slots, method, base) => ({ Python: python(slots, method), C: c(slots, method), curl: curl(slots, method, base) });
