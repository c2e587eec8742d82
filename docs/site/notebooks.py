"""A page with programs as a Jupyter notebook: its texts and its Python blocks as cells, in their order."""

from __future__ import annotations

import json
import re

PROGRAM = re.compile(r"```python ?(\w*)\n(.*?)```\n?", re.DOTALL)


def notebook(markdown: str) -> str:
    parts = PROGRAM.split(markdown)  # text, needs, program, text, ...
    texts, needs, programs = parts[::3], parts[1::3], parts[2::3]
    cells = []
    if "server" in needs:  # which the reader has started
        cells.append(("code", 'address = "tcp://127.0.0.1:5555"'))
    for text, program in zip(texts, [*programs, ""]):
        cells += [("markdown", text.strip())] if text.strip() else []
        cells += [("code", program.rstrip("\n"))] if program else []
    return json.dumps({
        "nbformat": 4, "nbformat_minor": 5,
        "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}},
        "cells": [{"cell_type": kind, "id": f"cell-{i}", "metadata": {}, "source": text.splitlines(keepends=True),
                   **({"outputs": [], "execution_count": None} if kind == "code" else {})} for i, (kind, text) in enumerate(cells)],
    }, ensure_ascii=False, indent=1)
