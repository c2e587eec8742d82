"""Packages that parts of contactd work with, and that are installed by whoever uses these parts."""

from __future__ import annotations

import importlib
import re
import warnings
from typing import Any


def need(package: str, user: str, extra: str | None = None) -> Any:
    """The module `package`. ImportError: names what to install. extra: of contactd that brings it, where its name is another."""
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as e:
        if e.name != package.split(".")[0]:
            raise  # it is there, and what it needs is not
        raise ImportError(f"{user} needs the package {package}: pip install {package}, or pip install 'contactd[{extra or package}]'",
                          name=package) from None


def check_version(module: Any, user: str, least: tuple[int, ...], below: tuple[int, ...]) -> None:
    """Warns where the package's version is outside the range that `user` is made for."""
    version = str(getattr(module, "__version__", ""))
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if numbers and not least <= numbers < below:
        made_for = f"{'.'.join(map(str, least))} to below {'.'.join(map(str, below))}"
        warnings.warn(f"{user} is made for {module.__name__} {made_for}, this is {version}", stacklevel=3)
