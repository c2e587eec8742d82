"""What the site has beside the pages of docs/: README as its first page, pages of reference that are made of the sources, and the
files that pages link to. For mkdocs.yml."""

from __future__ import annotations

import json
import os
import posixpath
import re
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from mkdocs.structure.files import File

sys.path.insert(0, str(Path(__file__).parent))
from notebooks import notebook  # noqa: E402
from remedies import REMEDIES  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"(\]\()([^)\s#]+)(#[^)\s]*)?(\))")


def errors() -> str:
    rows = re.findall(r"X\((\w+), (\d+), (\d+), ([01]), \"(.*?)\"\)", (ROOT / "proto/errors.h").read_text())
    if {name for name, *_ in rows} != set(REMEDIES):
        raise SystemExit(f"remedies.py and proto/errors.h differ: {sorted({name for name, *_ in rows} ^ set(REMEDIES))}")
    lines = ["# Errors", "", "An error has a code, the object and the field that it is about, and a message that says what was found, what "
             "was expected and what helps. Codes are the same over the stream, over HTTP, in C (`CONTACTD_BUSY`) and in Python "
             "(`contactd.errors.BusyError`).", "", "| code | number | HTTP | a retry may help | | what helps |", "| --- | --- | --- | --- | --- | --- |"]
    return "\n".join(lines + [f"| `{name}` | {number} | {http} | {'yes' if int(retry) else 'no'} | {text} | {REMEDIES[name]} |" for name, number, http, retry, text in rows])


def json_text(value: object, indent: int = 0) -> str:
    """JSON whose parts stand on one line where they fit."""
    line = json.dumps(value, ensure_ascii=False)
    if len(line) + indent <= 110 or not isinstance(value, (dict, list)):
        return line
    items = [(f"{json.dumps(key)}: ", item) for key, item in value.items()] if isinstance(value, dict) else [("", item) for item in value]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    parts = [" " * (indent + 1) + key + json_text(item, indent + 1) for key, item in items]
    return opening + "\n" + ",\n".join(parts) + "\n" + " " * indent + closing


def example_of(title: str, content: dict[str, dict[str, object]]) -> list[str]:
    examples = [media["example"] for media in content.values() if "example" in media]
    text = "".join(example if isinstance(example, str) else json_text(example) for example in examples)
    return ["", f"{title}, for example:", "", "```" if isinstance(examples[0], str) else "```json", text.rstrip(), "```"] if examples else []


def http() -> str:
    document = json.loads((ROOT / "proto/openapi.json").read_text())
    lines = ["# HTTP", "", document["info"]["description"], "", "A server shows these at `/docs`, where they can be tried."]
    for path, item in document["paths"].items():
        for method, operation in item.items():
            if method == "parameters":
                continue
            lines += ["", f"## `{method.upper()} {path}`", "", operation["summary"] + ".", "", operation.get("description", "")]
            rows = [p for p in [*item.get("parameters", []), *operation.get("parameters", [])] if "name" in p]
            if rows:
                lines += ["", "| parameter | in | |", "| --- | --- | --- |"]
                lines += [f"| `{p['name']}` | {p['in']} | {p.get('description', '')} |" for p in rows]
            lines += example_of("Body", operation.get("requestBody", {}).get("content", {}))
            for status, response in operation["responses"].items():
                if status.startswith("2"):
                    lines += example_of(f"Answer {status}", response.get("content", {}))
    return "\n".join(lines)


def contactctl() -> str:
    program = os.environ["CONTACTCTL"]

    def help_of(*command: str) -> str:
        return subprocess.run([program, "help", *command], capture_output=True, text=True).stdout.rstrip()

    lines = ["# contactctl", "", "```", help_of(), "```"]
    for line in re.findall(r"^  ([a-z]+(?: [a-z]+)?)", help_of(), re.M):
        if text := help_of(*line.split()) or help_of(line.split()[0]):
            lines += ["", f"## {line}", "", "```", text, "```"]
    return "\n".join(lines)


def header(title: str, intro: str, *paths: str) -> str:
    parts = [f"# {title}", "", intro]
    for path in paths:
        parts += ["", f"## {posixpath.basename(path)}", "", "```c", (ROOT / path).read_text().rstrip(), "```"]
    return "\n".join(parts)


def metrics() -> str:
    """Those of a server that is started for it."""
    with socket.create_server(("127.0.0.1", 0)) as http, socket.create_server(("127.0.0.1", 0)) as stream:
        ports = [server.getsockname()[1] for server in (http, stream)]
    program = Path(os.environ["CONTACTCTL"]).with_name("contactd")
    server = subprocess.Popen([program, "--http", f"127.0.0.1:{ports[0]}", "--stream", f"tcp://127.0.0.1:{ports[1]}", "--log-level", "error"])
    try:
        text = read(f"http://127.0.0.1:{ports[0]}/metrics", server)
    finally:
        server.terminate()
        server.wait()
    kinds = dict(re.findall(r"^# TYPE (\w+) (\w+)", text, re.M))
    lines = ["# Metrics", "", "What a server tells Prometheus at `/metrics`. Rules, a dashboard and a runbook that use them: "
             "[Monitoring](../../deploy/README.md#monitoring).", "", "| metric | kind | labels | |", "| --- | --- | --- | --- |"]
    for name, help_text in re.findall(r"^# HELP (\w+) (.*)", text, re.M):
        labels = {label for line in re.findall(rf"^{name}(?:_bucket)?\{{(.*?)\}} ", text, re.M) for label in re.findall(r"(\w+)=\"", line)}
        lines.append(f"| `{name}` | {kinds[name]} | {', '.join(f'`{label}`' for label in sorted(labels - {'le'}))} | {help_text} |")
    return "\n".join(lines)


def read(address: str, server: subprocess.Popen) -> str:
    """Once it answers."""
    while server.poll() is None:
        try:
            with urllib.request.urlopen(address, timeout=60) as answer:
                return answer.read().decode()
        except OSError:
            time.sleep(0.05)
    raise SystemExit("hooks.py: contactd ended before it answered; its log says why")


PAGES = {
    "index.md": lambda: (ROOT / "README.md").read_text(),
    "reference/errors.md": errors,
    "reference/http.md": http,
    "reference/contactctl.md": contactctl,
    "reference/metrics.md": metrics,
    "reference/python.md": lambda: "# Python\n\n::: contactd\n",
    "reference/c.md": lambda: header("C client", "`client_c/contactd.h`, as it is installed.", "client_c/contactd.h"),
    "reference/engine.md": lambda: header("Engine", "The library `libcontact`, as it is installed under `<contact/…>`.",
                                          *(f"gpu/include/{name}" for name in ("contact.h", "contact_mesh.h", "contact_scene.h", "contact_result.h"))),
    "reference/protocol.md": lambda: header("Protocol", "Messages of the stream, in FlatBuffers over ZeroMQ.", "proto/contactd.fbs"),
}


def notebook_pages() -> list[Path]:
    return sorted(page for folder in ("tutorials", "howto") for page in (ROOT / "docs" / folder).glob("*.md"))


def on_files(files, config):
    for path, make in PAGES.items():
        # In a search, what explains comes before what lists.
        head = "---\nsearch:\n  boost: 0.05\n---\n" if path.startswith("reference/") else ""
        files.append(File.generated(config, path, content=head + make()))
    for page in notebook_pages():
        uri = f"notebooks/{page.stem}.ipynb"
        text = re.sub(r"\.md(#[^)]*)?\)", r".html\1)", linked(page.read_text(), page.parent, uri))
        files.append(File.generated(config, uri, content=notebook(text)))
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for _, target, _, _ in LINK.findall(page.read_text()):
            found = (page.parent / target).resolve()
            if re.match(r"[a-z]+:", target) or not found.is_file() or found.is_relative_to(ROOT / "docs"):
                continue
            name = f"files/{found.relative_to(ROOT)}" + (".txt" if found.suffix == ".md" else "")
            if files.get_file_from_path(name) is None:
                files.append(File.generated(config, name, content=found.read_bytes()))
    return files


def linked(markdown: str, here: Path, uri: str) -> str:
    """The text of a page in the folder `here`, shown at `uri`: links that leave docs/ lead to copies of what they mean."""

    def lead(match):
        before, target, anchor, after = match.groups()
        found = (here / target).resolve()
        if re.match(r"[a-z]+:", target) or not found.exists():
            return match[0]
        if found == ROOT / "README.md":
            to = "index.md"
        elif found.is_relative_to(ROOT / "docs"):
            to = str(found.relative_to(ROOT / "docs"))
        elif found.is_file():
            to, anchor = f"files/{found.relative_to(ROOT)}" + (".txt" if found.suffix == ".md" else ""), None
        else:
            to, anchor = "index.md", None  # a folder of the sources
        return before + posixpath.relpath(to, posixpath.dirname(uri) or ".") + (anchor or "") + after

    return LINK.sub(lead, markdown)


def on_page_markdown(markdown, page, config, files):
    """README's links come from outside."""
    uri = page.file.src_uri
    if uri == "questions.md":
        page.meta["search"] = {"boost": 4}
    here = ROOT if uri == "index.md" else (ROOT / "docs" / uri).parent
    if ROOT / "docs" / uri in notebook_pages():
        title, text = markdown.split("\n", 1)
        markdown = f"{title}\n\n[This page as a notebook](../notebooks/{Path(uri).stem}.ipynb)\n{text}"
    return linked(markdown, here, uri)
