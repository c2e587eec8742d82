"""Whether every link of the site in a folder, and of its notebooks, leads to a file that is there, and to a place in it."""

from __future__ import annotations

import functools
import html
import json
import re
import sys
import urllib.parse
from pathlib import Path


@functools.cache
def places(page: Path) -> set[str]:
    return set(re.findall(r'\bid="([^"]+)"', page.read_text()))


def links_of(file: Path) -> list[str]:
    if file.suffix == ".html":
        return [html.unescape(link) for link in re.findall(r'(?:href|src)="([^"]+)"', file.read_text())]
    texts = ("".join(cell["source"]) for cell in json.loads(file.read_text())["cells"] if cell["cell_type"] == "markdown")
    return [link for text in texts for link in re.findall(r"\]\(([^)\s]+)\)", text)]


def leads_somewhere(file: Path, link: str) -> bool:
    path, _, place = link.partition("#")
    target = (file.parent / urllib.parse.unquote(path.partition("?")[0])).resolve() if path else file
    return target.exists() and (not place or target.suffix != ".html" or urllib.parse.unquote(place) in places(target))


def main() -> None:
    site = Path(sys.argv[1]).resolve()
    files = [file for kind in ("html", "ipynb") for file in site.rglob(f"*.{kind}") if file.name != "404.html"]
    links = [(file, link) for file in files for link in links_of(file) if not re.match(r"[\w+]+:|//", link)]
    broken = [f"{file.relative_to(site)}: {link}" for file, link in links if not leads_somewhere(file, link)]
    if not links or broken:
        sys.exit("\n".join(["links that lead nowhere:", *broken]))
    print(f"{len(files)} pages, {len(links)} links")


if __name__ == "__main__":
    main()
