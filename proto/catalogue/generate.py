#!/usr/bin/env python3
"""generate.py - writes what the tables of this folder say into the files that need it; those are committed.

    generate.py [--check]      --check: writes nothing, and fails where a file is not as it would be written

`make catalogue` and `make check-catalogue` run it. Whole files say on their first line that they are generated; in files
that are written by hand a block is between lines with `catalogue: begin NAME` and `catalogue: end NAME`.
"""
import json
import os
import re
import sys
import textwrap
import tomllib

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
METHODS_ALL = "CT_METHODS_ALL"

C_TYPES = {"f64": "double", "flag": "int8_t", "u32": "uint32_t", "u64": "uint64_t", "u32x3": "uint32_t"}
ROW_KEYS = {"name", "type", "unit", "default", "least", "most", "zero_means", "request_zero", "methods", "kept_by", "chooses",
            "id", "voxels", "paper", "value", "summary", "doc", "expected", "macros"}
METHOD_COSTS = ("prepare_ns", "points_ns", "usual_rays")
METHOD_KEYS = {"name", "number", "doc", *METHOD_COSTS}


class Mistake(Exception):
    """Of a row: says which, and what is wrong with it."""


def load(name):
    with open(os.path.join(HERE, name), "rb") as file:
        return tomllib.load(file)


def load_methods():
    methods = load("methods.toml")["method"]
    for key in ("name", "number"):
        if len({m[key] for m in methods}) != len(methods):
            raise Mistake(f"methods.toml: two methods have the same {key}")
    for method in methods:
        if extra := set(method) - METHOD_KEYS:
            raise Mistake(f"methods.toml: {method['name']} has {', '.join(sorted(extra))}, which no row has")
        for key in METHOD_COSTS:
            if not isinstance(method.get(key, 0), int | float) or method.get(key, 0) < 0:
                raise Mistake(f"methods.toml: {method['name']} has the {key} {method[key]!r}, expected a number, at least 0")
    return methods


def load_settings(methods):
    tables = load("settings.toml")
    rows, names = tables["setting"], {m["name"] for m in methods}
    choices = {c["setting"]: c for c in tables["choice"]}
    choices["method"] = {"names": [m["name"] for m in methods], "numbers": [m["number"] for m in methods],
                         "docs": [m["doc"] for m in methods], "paper": []}
    seen = {}
    for row in rows:
        what = f"settings.toml: {row.get('name', 'a setting without a name')}"
        if unknown := row.keys() - ROW_KEYS:
            raise Mistake(f"{what} has {', '.join(sorted(unknown))}, which no row has")
        if missing := {"name", "type", "id", "summary"} - row.keys():
            raise Mistake(f"{what} lacks {', '.join(sorted(missing))}")
        if row["type"] not in C_TYPES and row["type"] != "choice":
            raise Mistake(f"{what} has the type {row['type']!r}, expected {', '.join(C_TYPES)} or choice")
        if row["type"] == "choice" and row["name"] not in choices:
            raise Mistake(f"{what} is a choice, but no [[choice]] has its names")
        if (row["type"] == "f64") != ("unit" in row):
            raise Mistake(f"{what}: a f64 has a unit, and nothing else does")
        for method in [*row.get("methods", []), *row.get("kept_by", []), *([row["chooses"]] if "chooses" in row else [])]:
            if method not in names:
                raise Mistake(f"{what} names the method {method!r}, which methods.toml does not have")
        place = (row["name"],), (row.get("voxels", False), row["id"])
        for key in place:
            if key in seen:
                raise Mistake(f"{what} has the name or the id of {seen[key]}")
            seen[key] = row["name"]
    return rows, choices


# ---- C ----------------------------------------------------------------------------------------------------------------


def wrap(text, indent, first=None):
    """Lines of a comment."""
    return textwrap.fill(text, 120, initial_indent=first if first is not None else indent, subsequent_indent=indent)


def number(value):
    if isinstance(value, str):
        return value
    return repr(float(value)) if isinstance(value, float) else str(value)


def describe(row):
    """What a header and the docs say of a setting."""
    parts = []
    if row.get("unit", "1") != "1":
        parts.append(row["unit"])
    if "methods" in row:
        parts.append(", ".join(row["methods"]).upper())
    text = (": ".join([", ".join(parts), row["summary"]]) if parts else row["summary"])
    if "zero_means" in row:
        text += f"; 0: {row['zero_means']}"
    if "doc" in row:
        text += f". {row['doc']}"
    return text.rstrip(".")


def c_type(row):
    return f"ct_{row['name']}" if row["type"] == "choice" else C_TYPES[row["type"]]


def settings_header(rows, choices):
    out = ["/* settings.h - the settings of a scene, and the enumerations in them: for the engine, the wire and the C client.",
           " * Generated from proto/catalogue/settings.toml and methods.toml by `make catalogue`. */",
           "#ifndef CT_SETTINGS_H", "#define CT_SETTINGS_H", "", "#include <stdint.h>", "", "/* clang-format off */", "",
           "/* ---- limits ---- */", ""]
    macros = [(macro, row[key]) for row in rows for key, macro in row.get("macros", {}).items()]
    width = max(len(m) for m, _ in macros)
    out += [f"#define {macro:{width}} {value}" for macro, value in macros]
    out += ["", "/* ---- choices ---- */", ""]
    for row in rows:
        if row["type"] != "choice":
            continue
        choice, prefix = choices[row["name"]], f"CT_{row['name'].upper()}_"
        out.append(f"/* {row['summary'][0].upper()}{row['summary'][1:]}. */" if row["name"] != "method" else
                   "/* How contacts are computed. AUTO is a setting, not a method: no result has it. */")
        out.append(f"typedef enum ct_{row['name']} {{")
        if 0 not in choice["numbers"]:
            out.append(f"    {prefix}NONE = 0,")
        for name, num, doc in zip(choice["names"], choice["numbers"], choice["docs"]):
            text = f"    {prefix}{name.upper()} = {num},"
            line = f"{text} /* {doc} */"
            out.append(line if len(line) <= 120 else wrap(f"/* {doc} */", "     * ", "    ").replace("     * ", "       ") + "\n" + text)
        out += [f"}} ct_{row['name']};", ""]
    out += ["/* ---- the settings ---- */", "",
            "/* ct_scene_settings_init makes them complete, with their defaults. Of a method in capitals: other methods refuse",
            " * what is not 0 (INVALID_ARGUMENT). */",
            "typedef struct ct_scene_settings {", "    uint32_t cookie; /* set by ct_scene_settings_init */"]
    for row in rows:
        array = "[3]" if row["type"] == "u32x3" else ""
        out.append(wrap(f"/* {describe(row)} */", "       ", "    "))
        out.append(f"    {c_type(row)} {row['name']}{array};")
    out += ["} ct_scene_settings;", "",
            "/* The rows of ct_setting_rows (setting_rows.h), in their order. */", "typedef enum ct_setting {"]
    out += [f"    CT_SETTING_{row['name'].upper()}," for row in rows]
    out += ["    CT_SETTINGS,", "} ct_setting;", "",
            "/* Settings of a request: those whose bit, 1 << CT_SETTING_..., is in `given`; the others are 0. */",
            "typedef struct ct_settings_change {", "    uint64_t given;", "    ct_scene_settings to;", "} ct_settings_change;",
            "", "/* clang-format on */", "", "#endif", ""]
    return "\n".join(out)


def c_string(text):
    return "NULL" if text is None else json.dumps(text, ensure_ascii=False)


def mask(names, methods):
    numbers = {m["name"]: m["number"] for m in methods}
    return " | ".join(f"1u << {numbers[n]}" for n in names) or "0"


def settings_rows(rows, choices, methods):
    out = ["/* setting_rows.inc - the rows of ct_setting_rows. Generated from proto/catalogue/settings.toml and methods.toml by",
           " * `make catalogue`. */"]
    for row in rows:
        if row["type"] == "choice":
            choice = choices[row["name"]]
            pairs = ", ".join(f'{{"{n}", {v}}}' for n, v in zip(choice["names"], choice["numbers"]))
            out.append(f"static const ct_setting_choice {row['name']}_choices[] = {{{pairs}, {{NULL, 0}}}};")
    out += ["", "const ct_setting_row ct_setting_rows[CT_SETTINGS] = {"]
    for row in rows:
        is_count = row["type"] in ("u32", "u64", "u32x3")
        default = row.get("default", 0)
        if row["type"] == "choice":
            choice = choices[row["name"]]
            default = choice["numbers"][choice["names"].index(row.get("default", choice["names"][0]))]
        most = row.get("most", 1 if row["type"] == "flag" else 0)
        expected = row.get("expected")
        cells = {
            "name": c_string(row["name"]), "unit": c_string("" if row.get("unit", "1") == "1" else row["unit"]),
            "type": f"CT_SETTING_IS_{row['type'].upper()}", "offset": f"offsetof(ct_scene_settings, {row['name']})",
            "id": row["id"], "is_voxels": int(row.get("voxels", False)), "is_paper": int(row.get("paper", False)),
            "is_zero_left_out": int(not row.get("request_zero", True)),
            "initial": number(default),
            "least": 0 if is_count else number(row.get("least", 0)), "most": 0 if is_count else number(most),
            "from": row.get("least", 0) if is_count else 0, "to": f"UINT64_C({most})" if is_count else 0,
            "zero_means": c_string(row.get("zero_means")), "expected": c_string(expected),
            "methods": mask(row["methods"], methods) if "methods" in row else METHODS_ALL,
            "kept_by": mask(row.get("kept_by", []), methods),
            "chooses": f"CT_METHOD_{row['chooses'].upper()}" if "chooses" in row else "CT_METHOD_NONE",
            "choices": f"{row['name']}_choices" if row["type"] == "choice" else "NULL",
            "summary": c_string(row["summary"]),
        }
        out.append(f"    [CT_SETTING_{row['name'].upper()}] =")
        out.append("        {" + ",\n         ".join(f".{key} = {value}" for key, value in cells.items()) + "},")
    out += ["};", "", "static const ct_method_cost method_costs[] = {"]
    out += [f"    [CT_METHOD_{m['name'].upper()}] = {{" + ", ".join(f".{key} = {number(m.get(key, 0))}" for key in METHOD_COSTS) + "},"
            for m in methods]
    out += ["};", ""]
    return "\n".join(out)


def check_schema(rows, choices):
    """The schema is written by hand: its fields and numbers are those of the rows."""
    with open(os.path.join(ROOT, "proto/contactd.fbs"), encoding="utf-8") as file:
        schema = re.sub(r"//[^\n]*", "", file.read())
    for row in rows:
        table = "VoxelSettings" if row.get("voxels") else "Settings"
        fields = re.search(rf"table {table} \{{(.*?)\}}", schema, re.S).group(1)
        found = re.search(rf"\b{row['name']}: [^;]*\(id: (\d+)\)", fields)
        if not found or int(found.group(1)) != row["id"]:
            raise Mistake(f"settings.toml: {row['name']} has the id {row['id']}, but in the table {table} of contactd.fbs it "
                          f"{'has the id ' + found.group(1) if found else 'is missing'}")
    numbers = re.search(r"enum Method[^{]*\{(.*?)\}", schema, re.S).group(1)
    told = {name.lower(): int(number) for name, number in re.findall(r"(\w+) = (\d+)", numbers)}
    told.pop("none")
    if told != dict(zip(choices["method"]["names"], choices["method"]["numbers"])):
        raise Mistake(f"methods.toml: the methods of contactd.fbs are {told}")


# ---- contactctl -------------------------------------------------------------------------------------------------------

VALUES = {"m": "M", "m^3": "M3", "N/m^5": "K", "s": "SECONDS", "m/s": "SPEED", "1": "X"}


def setting_options(rows, choices):
    out = ["/* setting_options.inc - contactctl's options for settings. Generated from proto/catalogue by `make catalogue`. */"]
    for row in rows:
        if row["type"] == "flag":
            value = None
        elif row["type"] == "choice":
            value = "|".join(choices[row["name"]]["names"])
        else:
            value = row.get("value", VALUES[row["unit"]] if "unit" in row else "N")
        text = f"{', '.join(row['methods'])}: {row['summary']}" if "methods" in row else row["summary"]
        unit = row.get("unit", "1")
        text += f", in {unit}" if unit != "1" else ""
        text += f"; 0: {row['zero_means']}" if "zero_means" in row and row.get("request_zero", True) else ""
        name = "--" + row["name"].replace("_", "-")
        out.append(f"[OPT_SETTING + CT_SETTING_{row['name'].upper()}] = {{{c_string(name)}, {c_string(value)}, {c_string(text)}}},")
    return "\n".join(out) + "\n"


# ---- OpenAPI ----------------------------------------------------------------------------------------------------------

DBL_MAX = 1.7976931348623157e308


def in_words(row, zero=True):
    """What schemas and docs say: methods, meaning, unit and what 0 stands for."""
    text = f"{', '.join(row['methods'])}: {row['summary']}" if "methods" in row else row["summary"]
    if row.get("unit", "1") != "1":
        text += f", in {row['unit']}"
    if zero and "zero_means" in row:
        text += f"; 0: {row['zero_means']}"
    return f"{text}. {row['doc'].rstrip('.')}" if "doc" in row else text


def request_schema(row, choices):
    description = in_words(row, row.get("request_zero", True))
    if "zero_means" in row and not row.get("request_zero", True):
        description += f". Left out of a new scene: {row['zero_means']}"
    if "chooses" in row:
        description += f". Without a method, it makes the method {row['chooses']}"
    if row["type"] == "choice":
        return {"type": "string", "enum": choices[row["name"]]["names"], "description": description}
    if row["type"] == "flag":
        return {"type": "boolean", "description": description}
    if row["type"] == "f64":
        most = DBL_MAX if row["most"] == "DBL_MAX" else row["most"]
        least = {"minimum": 0} if row.get("request_zero", True) else {"exclusiveMinimum": 0}
        return {"type": "number", **least, "maximum": most, "description": description}
    if row["type"] == "u32x3":
        one = {"type": "integer", "minimum": row["least"], "maximum": row["most"]}
        return {"description": description + ". One number: the same for all three",
                "oneOf": [one, {"type": "array", "items": one, "minItems": 3, "maxItems": 3}]}
    return {"type": "integer", "minimum": 0, "maximum": row["most"], "description": description}


def answer_schema(row, choices):
    description = row["zero_means"] if "zero_means" in row else ""
    if row["type"] == "choice":
        return {"type": "string", "enum": choices[row["name"]]["names"]}
    if row["type"] == "flag":
        return {"type": "boolean"}
    if row["type"] == "u32x3":
        return {"type": ["array", "null"], "items": {"type": "integer"}, "minItems": 3, "maxItems": 3,
                "description": f"null: {description}"}
    unit = row.get("unit", "1")
    said = "; ".join(([unit] if unit != "1" else []) + ([f"0: {description}"] if description else []))
    schema = {"type": "number" if row["type"] == "f64" else "integer", "minimum": 0}
    return schema | ({"description": said} if said else {})


class Document:
    """A JSON text whose members are replaced in place, so that the rest keeps its layout."""

    def __init__(self, text):
        self.text = text
        self.decoder = json.JSONDecoder()

    def find(self, *keys):
        """Where the value begins that the keys lead to; each is looked for inside of the one before."""
        at = 0
        for key in keys:
            at = self.text.index(f'"{key}": ', at) + len(key) + 4
        return at

    def members(self, at):
        """(key, begin, end) of the members of the object that begins at `at`."""
        at = self.text.index("{", at) + 1
        while True:
            begin = re.compile(r"[\s,]*").match(self.text, at).end()
            if self.text[begin] == "}":
                return
            key, after = self.decoder.raw_decode(self.text, begin)
            value = re.compile(r"\s*:\s*").match(self.text, after).end()
            _, at = self.decoder.raw_decode(self.text, value)
            yield key, begin, at

    def replace_members(self, at, new):
        """Puts the members `new`, one a line, in place of those of the same names."""
        found = [m for m in self.members(at) if m[0] in new]
        first = found[0][1]
        indent = first - self.text.rindex("\n", 0, first) - 1
        lines = (",\n" + " " * indent).join(f"{json.dumps(k)}: {json.dumps(v, ensure_ascii=False)}" for k, v in new.items())
        for _, begin, end in reversed(found[1:]):
            end += self.text[end] == ","
            self.text = self.text[:begin].rstrip(" \n") + self.text[end:]
        self.text = self.text[:first] + lines + self.text[found[0][2]:]
        self.text = re.sub(r",(\s*})", r"\1", self.text)

    def replace_required(self, at, names):
        """The same of the strings of a list."""
        end = self.decoder.raw_decode(self.text, at)[1]
        old = json.loads(self.text[at:end])
        first = next(i for i, name in enumerate(old) if name in names)
        new = [n for n in old[:first] if n not in names] + names + [n for n in old[first:] if n not in names]
        self.text = self.text[:at] + json.dumps(new) + self.text[end:]


def openapi(rows, choices, results):
    with open(os.path.join(ROOT, "proto/openapi.json"), encoding="utf-8") as file:
        document = Document(file.read())
    asked = {row["name"]: request_schema(row, choices) for row in rows}
    told = {row["name"]: answer_schema(row, choices) for row in rows}
    for schema in ("SceneSettings", "NewScene"):
        document.replace_members(document.find("schemas", schema, "properties"), asked)
    for path in (("schemas", "Scene"), ("schemas", "StepResult", "settings")):
        document.replace_members(document.find(*path, "properties"), told)
        document.replace_required(document.find(*path, "required"), list(told))
    shown = shown_results(results)
    document.replace_members(document.find("schemas", "Contact", "properties"),
                             {row.get("json", row["name"]): result_schema(row) for row in shown})
    required = [row["name"] for row in shown if "group" not in row]
    contact = {key: begin for key, begin, _ in document.members(document.find("schemas", "Contact"))}
    document.replace_required(document.text.index("[", contact["required"]), required)
    json.loads(document.text)
    return document.text


# ---- results ----------------------------------------------------------------------------------------------------------

RESULT_KEYS = {"name", "column", "json", "wire", "type", "shape", "unit", "id", "ids", "symmetric", "nan", "group", "absent", "inner",
               "within", "summary", "doc"}
RESULT_TYPES = {"f64": ("double", "double"), "u32": ("uint32_t", "uint"), "i32": ("int32_t", "int"), "u64": ("uint64_t", "ulong"),
                "flag": ("bool", "bool")}
GROUPS = {"frame": "of steps that want a frame, or what comes with one: weights, inertia, ids, points, surface",
          "inertia": "of steps that want inertia",
          "slip": "of steps with velocities",
          "law": "of scenes with the law pressure",
          "ids": "of steps that want ids",
          "bounds": "of a method that bounds the errors of single views",
          "interval": "of a method that gives an interval",
          "cell": "of a cell"}


def load_results():
    rows, seen, is_inner = load("results.toml")["result"], {}, False
    for row in rows:
        what = f"results.toml: {row.get('name', 'a field without a name')}"
        if unknown := row.keys() - RESULT_KEYS:
            raise Mistake(f"{what} has {', '.join(sorted(unknown))}, which no row has")
        if missing := {"name", "type", "summary"} - row.keys():
            raise Mistake(f"{what} lacks {', '.join(sorted(missing))}")
        if row["type"] not in RESULT_TYPES:
            raise Mistake(f"{what} has the type {row['type']!r}, expected {', '.join(RESULT_TYPES)}")
        if (row["type"] == "f64") != ("unit" in row):
            raise Mistake(f"{what}: a f64 has a unit, and nothing else does")
        if row.get("group", "frame") not in GROUPS:
            raise Mistake(f"{what} has the group {row['group']!r}, expected {', '.join(GROUPS)}")
        is_body = row is rows[0]
        if is_inner and not row.get("inner") and not is_body:
            raise Mistake(f"{what} comes after rows that are inner: those come last")
        is_inner = row.get("inner", False) and not is_body
        if ("column" in row) == row.get("inner", False):
            raise Mistake(f"{what}: rows that are not inner have a column, and no other has")
        if not row.get("inner") and "id" not in row and "ids" not in row:
            raise Mistake(f"{what} has no id, and is not inner")
        for key in (row["name"], *([row["id"]] if "id" in row else []), *row.get("ids", [])):
            if key in seen:
                raise Mistake(f"{what} has the name or the id of {seen[key]}")
            seen[key] = row["name"]
    ids = sorted(key for key in seen if isinstance(key, int))
    if ids != list(range(len(ids))):
        raise Mistake(f"results.toml: ids are not 0 to {len(ids) - 1}")
    return rows


def result_text(row):
    unit = row.get("unit", "1")
    text = f"{unit}: {row['summary']}" if unit != "1" else row["summary"]
    return (f"{text}. {row['doc']}" if "doc" in row else text).rstrip(".")


def result_members(rows):
    out = []
    for row in rows:
        dimensions = "".join(f"[{n}]" for n in row.get("shape", ()))
        out.append(wrap(f"/* {result_text(row)}{'; else NaN' if row.get('nan') else ''} */", "       ", "    "))
        out.append(f"    {RESULT_TYPES[row['type']][0]} {row['name']}{dimensions};")
    return out


def shown_results(rows):
    return [row for row in rows if not row.get("inner")]


def contact_header(rows):
    out = ["/* contact_fields.h - the fields of a contact: for the engine, the wire and the C client.",
           " * Generated from proto/catalogue/results.toml by `make catalogue`. */",
           "#ifndef CT_CONTACT_FIELDS_H", "#define CT_CONTACT_FIELDS_H", "", "#include <stdbool.h>", "#include <stdint.h>", "", "/* clang-format off */", "",
           "/* What fields are given together. Those of a group that is not given are 0, or NaN where that stands for none. */",
           "enum {"]
    width = max(map(len, GROUPS))
    out += [f"    CT_CONTACT_{group.upper():{width}} = {1 << k:2}, /* {text} */" for k, (group, text) in enumerate(GROUPS.items())]
    out += ["};", "", "/* See contact_pair.h for what holds of contacts. Part i is that of body[i]. */", "typedef struct ct_contact {",
            *result_members(rows), "} ct_contact;", "", "/* clang-format on */", "", "#endif", ""]
    return "\n".join(out)


def column_id(row):
    """Of a field's column in C: its first id on the wire, which never changes."""
    return row["id"] if "id" in row else row["ids"][0]


def columns_in_c(rows):
    return [row for row in shown_results(rows) if row.get("group") != "cell"]


def cpp_columns(rows):
    """The functions of contactd::Result, one a column."""
    out = []
    for row in columns_in_c(rows):
        number = {"f64": "double", "u32": "uint32_t", "i32": "int32_t", "flag": "bool", "u64": "uint64_t"}[row["type"]]
        value = number + "".join(f"[{n}]" for n in row.get("shape", ()))
        out += [wrap(f"/* {result_text(row)} */", "       ", "    "),
                f"    Column<{value}> {row['column']}() const {{ return column<{value}>(CONTACTD_COLUMN_{row['name'].upper()}); }}"]
    return out


def column_members(rows):
    """The enum contactd_column_id: what contacts have, and not their cells alone."""
    out = []
    for row in columns_in_c(rows):
        shape = "".join(f"[{n}]" for n in row.get("shape", ()))
        unit = row.get("unit", "1")
        about = f"{row['type']}{shape}{'' if unit == '1' else ', ' + unit}"
        out.append(f"    CONTACTD_COLUMN_{row['name'].upper()} = {column_id(row)}, /* {about} */")
    return out


def contact_rows(rows):
    out = ["/* contact_rows.h - the fields of a contact that are shown, for those who write JSON: a loop over rows.",
           " * Generated from proto/catalogue/results.toml by `make catalogue`. */",
           "#ifndef CT_CONTACT_ROWS_H", "#define CT_CONTACT_ROWS_H", "", "#include <stddef.h>", "",
           '#include "proto/contact_fields.h"', "", "/* clang-format off */", "",
           "typedef enum ct_contact_type { CT_CONTACT_IS_F64, CT_CONTACT_IS_U32, CT_CONTACT_IS_I32, CT_CONTACT_IS_FLAG, CT_CONTACT_IS_U64 } ct_contact_type;", "",
           "typedef struct ct_contact_row {", "    const char *name; /* in JSON */", "    ct_contact_type type;",
           "    size_t offset; /* in ct_contact, and in contactd_contact */", "    int rows, columns; /* 0: a number; rows 1: a list */",
           "    unsigned group; /* CT_CONTACT_...; 0: always */", "    int id;           /* on the wire, and of its column in contactd.h */",
           '    const char *unit; /* "": none */', "} ct_contact_row;", "",
           "static const ct_contact_row ct_contact_rows[] = {"]
    for row in shown_results(rows):
        shape = row.get("shape", [0, 0])
        shape = [1, *shape] if len(shape) == 1 else shape
        group = f"CT_CONTACT_{row['group'].upper()}" if "group" in row else "0"
        unit = row.get("unit", "1")
        out.append(f"    {{{c_string(row.get('json', row['name']))}, CT_CONTACT_IS_{row['type'].upper()}, "
                   f"offsetof(ct_contact, {row['name']}), {shape[0]}, {shape[1]}, {group}, {column_id(row)}, "
                   f"{c_string('' if unit == '1' else unit)}}},")
    out += ["};", "enum { CT_CONTACT_ROWS = sizeof ct_contact_rows / sizeof *ct_contact_rows };", "", "/* clang-format on */", "",
            "#endif", ""]
    return "\n".join(out)


def wire_fields(rows):
    """(id, name on the wire, row, part) of each field of the table Contact, in order of id; part None: of the whole row."""
    found = []
    for row in rows:
        name = row.get("wire", row["name"])
        if "id" in row:
            found.append((row["id"], name, row, None))
        found += [(i, f"{name}_{'ab'[part]}", row, part) for part, i in enumerate(row.get("ids", ()))]
    return sorted(found, key=lambda f: f[0])


def wire_count(row, part):
    """Numbers of a field; 0: a scalar."""
    if row.get("symmetric"):
        return 6
    shape = row.get("shape", ()) if part is None else row["shape"][1:]
    count = 1
    for n in shape:
        count *= n
    return count if shape else 0


def contact_columns(rows):
    """What of a contact a StepMany's answer may have, a column each: all but where entries of its own lie."""
    out = ["/* contact_columns.h - the columns that answers of many scenes have: fields of ct_contact by their ids in the wire's table",
           " * Contact. Generated from proto/catalogue/results.toml by `make catalogue`. */",
           "#ifndef CT_CONTACT_COLUMNS_H", "#define CT_CONTACT_COLUMNS_H", "", '#include "proto/contact_rows.h"', "",
           "/* clang-format off */", "",
           "typedef struct ct_contact_column {", "    uint16_t field; /* its id */", "    ct_contact_type type;",
           "    uint32_t width; /* numbers; a symmetric matrix has 6 of its 9: xx, yy, zz, xy, yz, zx */",
           "    size_t offset; /* in ct_contact */", "    unsigned group; /* CT_CONTACT_...; 0: always */",
           "    uint32_t is_symmetric;", "} ct_contact_column;", "",
           "static const ct_contact_column ct_contact_columns[] = {"]
    for i, _, row, part in wire_fields(rows):
        if (row.get("inner") and row["name"] != "body") or row.get("group") == "cell":
            continue
        group = f"CT_CONTACT_{row['group'].upper()}" if "group" in row else "0"
        out.append(f"    {{{i}, CT_CONTACT_IS_{row['type'].upper()}, {wire_count(row, part) or 1}, "
                   f"offsetof(ct_contact, {member(row, part)}), {group}, {int(row.get('symmetric', False))}}},")
    out += ["};", "enum { CT_CONTACT_COLUMNS = sizeof ct_contact_columns / sizeof *ct_contact_columns };", "",
            "/* clang-format on */", "", "#endif", ""]
    return "\n".join(out)


def member(row, part):
    return row["name"] if part is None else f"{row['name']}[{part}]"


def flat(row, part):
    """The first number of a field, as C writes its address."""
    depth = len(row["shape"]) - (part is not None) - 1
    return f"c.{member(row, part)}{'[0]' * depth}"


def contact_codec(rows):
    """Encoder and decoder of the table: straight code, as encoding a contact costs as much as computing a small one."""
    write, args = [], []
    for _, name, row, part in wire_fields(rows):
        count = wire_count(row, part)
        if not count:
            args.append(f"c.{member(row, part)}")
            continue
        if row["type"] == "i32":
            value = f"w.fbb->CreateVector({flat(row, part)}, {count})"
        elif row.get("symmetric"):
            write.append(f"    const double {name}_parts[6] = {{c.{name}[0][0], c.{name}[1][1], c.{name}[2][2], c.{name}[0][1], "
                         f"c.{name}[1][2], c.{name}[2][0]}};")
            value = f"w.numbers({name}_parts, 6)"
        else:
            value = f"w.numbers({flat(row, part)}, {count})"
        kind = "int32_t" if row["type"] == "i32" else "double"
        when = f"if (groups & CT_CONTACT_{row['group'].upper()}) " if row.get("absent") else ""
        write += [f"    Offset<flatbuffers::Vector<{kind}>> {name};", f"    {when}{name} = {value};"]
        args.append(name)
    read, more = [f"    memset(&c.{row['name']}, 0, sizeof c.{row['name']});" for row in rows if not row.keys() & {"id", "ids"}], []
    for _, name, row, part in wire_fields(rows):
        count = wire_count(row, part)
        if not count:
            read.append(f"    c.{member(row, part)} = in->{name}();")
            if "within" in row:
                length, words = row["within"]
                n = member(rows[rows.index(row) + 1], part)
                more.append(f'r.within(c.{member(row, part)}, c.{n}, n.{length}, "{name}", "{words}")')
            continue
        if row.get("absent"):
            read.append(f"    if (in->{name}()) *groups |= CT_CONTACT_{row['group'].upper()};")
        if row["type"] == "i32":
            more.append(f'r.whole_numbers(in->{name}(), "{name}", {count}, {flat(row, part)})')
        elif row.get("symmetric"):
            read.append("    double parts[6];")
            more.append(f'r.numbers(in->{name}(), "{name}", 6, nullptr, parts) && r.symmetric(parts, c.{name})')
        else:
            more.append(f'r.numbers(in->{name}(), "{name}", {count}, {"no_numbers" if row.get("nan") else "nullptr"}, {flat(row, part)})')
    return "\n".join([
        "// contact_codec.inc - the table Contact from and to ct_contact. Generated from proto/catalogue/results.toml by",
        "// `make catalogue`.", "#ifdef CONTACT_ENCODE",
        "template <class Writer> Offset<fb::Contact> encode_contact(Writer &w, const ct_contact &c, unsigned groups) {", *write,
        f"    return fb::CreateContact(*w.fbb, {', '.join(args)});", "}", "#else",
        "template <class Reader, class Counts>",
        "bool decode_contact(Reader &r, const fb::Contact *in, const Counts &n, ct_contact &c, unsigned *groups) {", *read,
        "    return " + " &&\n           ".join(more) + ";", "}", "#endif"]) + "\n"


def put_block(path, name, lines, text=None):
    """The file, or the text that it is to have, with what is between its lines that begin and end the block replaced."""
    if text is None:
        with open(os.path.join(ROOT, path), encoding="utf-8") as file:
            text = file.read()
    begin, end = text.index(f"catalogue: begin {name}"), text.index(f"catalogue: end {name}")
    first, last = text.index("\n", begin) + 1, text.rindex("\n", 0, end) + 1
    return text[:first] + "\n".join(lines) + "\n" + text[last:]


def contact_table(rows):
    out = []
    for i, name, row, part in wire_fields(rows):
        kind, count = RESULT_TYPES[row["type"]][1], wire_count(row, part)
        kind = f"[{kind}]" if count else kind
        default = " = nan" if row.get("nan") and not count else ""
        notes = [f"{count}"] if count else []
        notes += ["xx, yy, zz, xy, yz, zx"] if row.get("symmetric") else []
        notes += [row["unit"]] if row.get("unit", "1") != "1" else []
        notes += [f"absent unless {GROUPS[row['group']]}"] if row.get("absent") else []
        text = f"{', '.join(notes)}: {row['summary']}" if notes else row["summary"]
        out += [textwrap.fill(text, 120, initial_indent="  // ", subsequent_indent="  // ")] if part != 1 else []
        out.append(f"  {name}: {kind}{default} (id: {i});")
    return out


def result_schema(row):
    number = {"type": {"f64": "number", "flag": "boolean"}.get(row["type"], "integer")}
    if row["type"] == "u32":
        number["minimum"] = 0
    for n in reversed(row.get("shape", ())):
        number = {"type": "array", "items": number, "minItems": n, "maxItems": n}
    if row.get("nan") and "shape" not in row:
        number["type"] = ["number", "null"]
    text = result_text(row).replace("; none", "; null").replace(": none", ": null")
    return number | {"description": f"{text}. Only {GROUPS[row['group']]}" if "group" in row else text}


def results_page(rows):
    out = ["<!-- Generated from proto/catalogue/results.toml by `make catalogue`. -->", "# Fields of a contact", "",
           "They have the same names over HTTP, in C and in Python; in C `side_centers` is `side_center`. All in SI units. Where a",
           "field says none, C has NaN, JSON null or nothing, Python None, and NaN in a column: an array of the values of all",
           "contacts, (n, shape), of a Python result.", "", "| field | column | shape | unit | given | |",
           "| --- | --- | --- | --- | --- | --- |"]
    for row in shown_results(rows):
        shape = " x ".join(map(str, row.get("shape", ()))) or ""
        text = row["summary"] + (f". {row['doc'].rstrip('.')}" if "doc" in row else "")
        column = f"`result.{'cells.' if row.get('group') == 'cell' else ''}{row['column']}`"
        out.append(f"| `{row.get('json', row['name'])}` | {column} | {shape} | {row.get('unit', '')} | "
                   f"{GROUPS[row['group']] if 'group' in row else 'always'} | {text.replace('|', chr(92) + '|')} |")
    return "\n".join(out) + "\n"


# ---- Python -----------------------------------------------------------------------------------------------------------

ANNOTATIONS = {"f64": "float", "flag": "bool", "u32": "int", "u64": "int", "u32x3": "int | Sequence[int]"}
READ_AS = ANNOTATIONS | {"u32x3": "tuple[int, int, int] | None"}
POSITIONAL = 5  # arguments of open_scene that may be given by position: the first rows


def annotation(row, table=ANNOTATIONS):
    return row["name"].capitalize() if row["type"] == "choice" else table[row["type"]]


def signature(rows, keyword_from):
    """Arguments, each None unless given; keyword-only from this one on."""
    words = [f"{row['name']}: {annotation(row)} | None = None" for row in rows]
    return words[:keyword_from] + ["*"] + words[keyword_from:]


def pack(items, indent, width=127):
    """Lines of as many items as fit, for what stands in brackets; the first line begins where it is put."""
    lines, line = [], ""
    for item in items:
        if line and len(line) + len(item) + 2 > width - indent:
            lines.append(line + ",")
            line = item
        else:
            line = f"{line}, {item}" if line else item
    return ("\n" + " " * indent).join([*lines, line])


def python_text(row):
    values = {"flag": "", "choice": ""}.get(row["type"])
    if values is None:
        zero = f"; 0: {row['zero_means']}" if "zero_means" in row and row.get("request_zero", True) else ""
        values = range_of(row, {}).split("; 0")[0]
        values = f" {values[0].upper()}{values[1:]}{zero}."
    methods = f" For {', '.join(row['methods'])}." if "methods" in row else ""
    return f"{row['summary'][0].upper()}{row['summary'][1:]}.{values}{methods}" + (f" {row['doc']}" if "doc" in row else "")


def python_settings(rows, choices):
    def block(text, indent, first):
        return textwrap.fill(text, 127, initial_indent=first, subsequent_indent=indent)

    literals = []
    for row in rows:
        if row["type"] == "choice":
            names = ", ".join(json.dumps(n) for n in choices[row["name"]]["names"])
            literals.append(f"{row['name'].capitalize()} = Literal[{names}]")
    out = ['"""The settings of scenes: rows, attributes and signatures. Generated from proto/catalogue by `make catalogue`."""', "",
           "from __future__ import annotations", "", "from typing import Any, Literal, NamedTuple, Sequence", "", *literals, "", "",
           "class Row(NamedTuple):", "    name: str", "    type: str  # f64, flag, u32, u64, u32x3 or choice",
           "    is_voxels: bool  # in the wire's table VoxelSettings",
           "    may_be_zero: bool  # in a request", "    least: float  # of what is not 0", "    most: float", "    expected: str",
           "    choices: dict[str, int]", "", "", "ROWS = ("]
    for row in rows:
        choice = choices.get(row["name"]) if row["type"] == "choice" else None
        pairs = "{" + ", ".join(f'"{n}": {v}' for n, v in zip(choice["names"], choice["numbers"])) + "}" if choice else "{}"
        most = "float('inf')" if row.get("most") == "DBL_MAX" else row.get("most", 1)
        text = row.get("expected") or range_of({k: v for k, v in row.items() if k != "unit"}, choices).split("; 0")[0]
        zero = f", or 0 for {row['zero_means']}" if "zero_means" in row and row.get("request_zero", True) else ""
        cells = [repr(row["name"]), repr(row["type"]), str(row.get("voxels", False)), str(row.get("request_zero", True)),
                 str(row.get("least", 0)), str(most), json.dumps(text.replace("`", "") + zero), pairs]
        out.append(f"    Row({pack(cells, 8)}),")
    out += [")", "", "", "class SceneSettings:", '    """The settings in force, and the call that changes them: for Scene."""', "",
            "    __slots__ = ()", "",
            "    def _setting(self, name: str) -> Any:", "        raise NotImplementedError", "",
            "    def _configure(self, given: dict[str, Any], timeout: float | None) -> None:", "        raise NotImplementedError"]
    for row in rows:
        out += ["", "    @property", f"    def {row['name']}(self) -> {annotation(row, READ_AS)}:",
                block(f'"""{python_text(row)}"""', "        ", "        "), f"        value: {annotation(row, READ_AS)} = self._setting({row['name']!r})", "        return value"]
    names = [f"{r['name']}={r['name']}" for r in rows]
    args = pack(["self", *signature(rows, 0), "timeout: float | None = None"], 18)
    out += ["", f"    def configure({args}) -> None:",
            '        """Changes settings from the next step on; what is left out keeps its value.', "",
            "        A setting belongs to the methods named with it: other methods refuse it, and a change to another method drops it (but",
            "        patches, beside which it is refused). One that is named without a method makes the method its own.", "", "        Args:"]
    out += [block(f"{row['name']}: {python_text(row)}", " " * 16, " " * 12) for row in rows]
    out += ["            timeout: s, of the request; None: the client's.", '        """',
            f"        self._configure(dict({pack(names, 29)}), timeout)"]
    return "\n".join(out) + "\n"


def python_opener(rows):
    names = [f"{r['name']}={r['name']}" for r in rows]
    out = ['"""The call that opens scenes. Generated from proto/catalogue by `make catalogue`."""', "",
           "from __future__ import annotations", "", "from typing import Any, Sequence", "",
           f"from ._scene_settings import {', '.join(sorted(annotation(row) for row in rows if row['type'] == 'choice'))}",
           "from .scene import Scene", "", "",
            "class SceneOpener:", '    """Opens scenes: for Client."""', "",
            "    def _open_scene(self, given: dict[str, Any], name: str, timeout: float | None) -> Scene:",
            "        raise NotImplementedError", ""]
    args = pack(["self", *signature(rows, POSITIONAL), 'name: str = ""', "timeout: float | None = None"], 19)
    out += [f"    def open_scene({args}) -> Scene:",
            '        """Opens a scene; see Scene.configure for the settings. What is left out has its default: method "auto", stiffness 1,',
            '        and none of the others.', "",
            "        Args:", '            name: what the server calls it, in lists and logs.',
            "            timeout: s, of the request; None: the client's.", '        """',
            f"        return self._open_scene(dict({pack(names, 37)}), name, timeout)"]
    return "\n".join(out) + "\n"


# ---- docs -------------------------------------------------------------------------------------------------------------


def python_columns(rows):
    def block(text, indent):
        return textwrap.fill(text, 127, initial_indent=indent, subsequent_indent=indent)

    cell = [row for row in rows if row.get("group") == "cell"]
    shown = [row for row in shown_results(rows) if row not in cell]
    out = ['"""The fields of all contacts of a result, a column each. Generated from proto/catalogue by `make catalogue`."""', "",
           "from __future__ import annotations", "", "from typing import NamedTuple", "", "import numpy as np",
           "from numpy.typing import NDArray", "", "", "class Column(NamedTuple):", "    name: str  # of the contact's attribute",
           "    fields: tuple[str, ...]  # in the wire's table Contact; two: of each part",
           "    shape: tuple[int, ...]  # of a contact's", "    is_symmetric: bool  # the wire has xx, yy, zz, xy, yz, zx",
           '    group: str  # what it is given with: "frame", "inertia", "slip", "law", "ids", "bounds", "interval" or "cell"; "":',
           '    # always', "", "",
           "COLUMNS = {"]
    for row in shown + cell:
        name = row.get("wire", row["name"])
        fields = tuple(f"{name}_{'ab'[part]}" for part in range(len(row.get("ids", ())))) or (name,)
        out.append(f"    {json.dumps(row['column'])}: Column({json.dumps(row.get('json', row['name']))}, {fields}, "
                   f"{tuple(row.get('shape', ()))}, {row.get('symmetric', False)}, {json.dumps(row.get('group', ''))}),")
    out += ["}", "", "", "class ContactColumns:",
            '    """Row i of each column is of contact i. What the step did not ask for is an error that names `want`."""', "", "    def _column(self, name: str) -> np.ndarray:", "        raise NotImplementedError"]
    for row in shown:
        shape = ", ".join(["n", *map(str, row.get("shape", ()))]) + ("" if row.get("shape") else ",")
        text = result_text(row).replace(": none", ": NaN").replace("; none", "; NaN").replace("none where", "NaN where")
        given = f" Only {GROUPS[row['group']]}." if "group" in row else ""
        number = {"f64": "np.float64", "flag": "np.bool_"}.get(row["type"], "np.int64")
        out += ["", "    @property", f"    def {row['column']}(self) -> NDArray[{number}]:",
                block(f'"""({shape}) {text}.{given}"""', " " * 8), f"        return self._column({json.dumps(row['column'])})"]
    return "\n".join(out) + "\n"


# What Python calls an error, too.
PYTHON_BASES = {"NOT_FOUND": "LookupError", "STALE_HANDLE": "LookupError", "FORBIDDEN": "PermissionError",
                "UNAUTHENTICATED": "PermissionError", "OUT_OF_MEMORY": "MemoryError", "DEADLINE_EXCEEDED": "TimeoutError",
                "TIME_LIMIT": "TimeoutError", "UNSUPPORTED": "NotImplementedError", "UNREACHABLE": "ConnectionError",
                "SERVER_ENDED": "ConnectionError"}
PYTHON_BASES |= dict.fromkeys(("MALFORMED", "INVALID_ARGUMENT", "PARSE_ERROR", "INVALID_MESH", "WRONG_LENGTH", "NON_FINITE",
                               "OUT_OF_RANGE", "TOO_LARGE", "LIMIT_EXCEEDED"), "ValueError")


def load_errors():
    """Name, number and text of each row of proto/errors.h."""
    with open(os.path.join(ROOT, "proto/errors.h"), encoding="utf-8") as file:
        return re.findall(r'^    X\((\w+), (\d+), \d+, [01], "(.*?)"\)', file.read(), re.M)


def python_errors(errors):
    codes = ["class ErrorCode(enum.IntEnum):", '    """Of the protocol; see proto/errors.h."""', "",
             *(f"    {name} = {number}" for name, number, _ in errors)]
    classes, names = [], {}
    for name, _, text in errors:
        if name == "OK":
            continue
        names[name] = "".join(word.capitalize() for word in name.removesuffix("_ERROR").split("_")) + "Error"
        base = f", {PYTHON_BASES[name]}" if name in PYTHON_BASES else ""
        classes += [f"class {names[name]}(ContactdError{base}):", f'    """{text[0].upper()}{text[1:]}."""', "",
                    f"    code = ErrorCode.{name}", "", ""]
    classes += ["_BY_CODE: dict[int, type[ContactdError]] = {",
                *(f"    ErrorCode.{name}: {cls}," for name, cls in names.items()), "}", "",
                "__all__ = [" + pack([json.dumps(n) for n in ("ContactdError", "ErrorCode", "ClosedError", *names.values())], 11) + "]"]
    text = put_block("client_py/contactd/errors.py", "codes", codes)
    return put_block("client_py/contactd/errors.py", "errors", classes, text)


def range_of(row, choices):
    if row["type"] == "choice":
        return ", ".join(f"`{n}`" for n in choices[row["name"]]["names"])
    if row["type"] == "flag":
        return "true or false"
    least = row.get("least", 1 if "zero_means" in row and row["type"] != "f64" else 0)
    most = row["most"]
    unit = f" {row['unit']}" if row.get("unit", "1") != "1" else ""
    text = "above 0" if most == "DBL_MAX" else f"{least:g} to {most:g}" if row["type"] == "f64" else f"{least} to {most}"
    return text + unit + (f"; 0: {row['zero_means']}" if "zero_means" in row and row.get("request_zero", True) else "")


def settings_page(rows, choices, methods):
    out = ["<!-- Generated from proto/catalogue/settings.toml and methods.toml by `make catalogue`. -->", "# Settings of a scene", "",
           "They have the same names over the stream, over HTTP, in C and in Python; `contactctl` has an option for each, with dashes.",
           "What a request leaves out keeps its value, and in a new scene its default. Lengths are in m, all in SI units.", "",
           "A setting belongs to the methods that are named with it: other methods refuse it, and a change to another method drops it",
           "(but `patches`, beside which the change is refused). A request that names such a setting and no method makes the method the one below \"chooses\".", "", "## Methods", "",
           "| method | number | |", "| --- | --- | --- |"]
    out += [f"| `{m['name']}` | {m['number']} | {m['doc']} |" for m in methods]
    for title, paper in (("Settings", False), ("To repeat the papers' experiments", True)):
        out += ["", f"## {title}", "", "| setting | values | default | methods | chooses | |", "| --- | --- | --- | --- | --- | --- |"]
        for row in rows:
            if row.get("paper", False) != paper:
                continue
            default = row.get("default", "false" if row["type"] == "flag" else "none" if row["type"] == "u32x3" else 0)
            default = f"`{default}`" if row["type"] == "choice" else str(default)
            text = row["summary"] + (f". {row['doc']}" if "doc" in row else "")
            out.append(f"| `{row['name']}` | {range_of(row, choices)} | {default} | "
                       f"{', '.join(row['methods']) if 'methods' in row else 'all'} | {row.get('chooses', '')} | {text} |")
    for row in rows:
        if row["type"] != "choice" or row["name"] == "method":
            continue
        choice = choices[row["name"]]
        out += ["", f"### `{row['name']}`", ""]
        out += [f"- `{n}`: {d}{' (for experiments)' if n in choice['paper'] else ''}" for n, d in zip(choice["names"], choice["docs"])]
    return "\n".join(out) + "\n"


# ---- files ------------------------------------------------------------------------------------------------------------


def outputs():
    """Path and content of each generated file."""
    methods = load_methods()
    rows, choices = load_settings(methods)
    check_schema(rows, choices)
    results = load_results()
    yield "proto/contact_fields.h", contact_header(results)
    yield "proto/contact_rows.h", contact_rows(results)
    yield "proto/contact_columns.h", contact_columns(results)
    yield "proto/contact_codec.inc", contact_codec(results)
    yield "proto/contactd.fbs", put_block("proto/contactd.fbs", "contact", contact_table(results))
    yield "client_c/contactd.h", put_block("client_c/contactd.h", "columns", column_members(results), put_block(
        "client_c/contactd.h", "contact", result_members(shown_results(results))))
    yield "client_c/contactd.hpp", put_block("client_c/contactd.hpp", "columns", cpp_columns(results))
    yield "docs/results.md", results_page(results)
    yield "proto/settings.h", settings_header(rows, choices)
    yield "client_py/contactd/_scene_settings.py", python_settings(rows, choices)
    yield "client_py/contactd/_scene_opener.py", python_opener(rows)
    yield "client_py/contactd/errors.py", python_errors(load_errors())
    yield "client_py/contactd/_contact_columns.py", python_columns(results)
    yield "docs/settings.md", settings_page(rows, choices, methods)
    yield "proto/openapi.json", openapi(rows, choices, results)
    yield "client_c/ctl/setting_options.inc", setting_options(rows, choices)
    yield "proto/setting_rows.inc", settings_rows(rows, choices, methods)


def main():
    is_check = "--check" in sys.argv[1:]
    stale = []
    try:
        for path, text in outputs():
            full = os.path.join(ROOT, path)
            found = open(full, encoding="utf-8").read() if os.path.exists(full) else None
            if found == text:
                continue
            stale.append(path)
            if not is_check:
                os.makedirs(os.path.dirname(full), exist_ok=True)
                with open(full, "w", encoding="utf-8") as file:
                    file.write(text)
    except Mistake as mistake:
        raise SystemExit(f"catalogue: {mistake}") from None
    if is_check and stale:
        raise SystemExit(f"catalogue: {', '.join(stale)} is not what the tables say: run make catalogue, and commit it")
    print(f"catalogue: {len(stale)} files written" if stale else "catalogue: all files are as the tables say")


if __name__ == "__main__":
    main()
