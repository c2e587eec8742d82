"""Packages that parts of contactd work with, and that are installed by whoever uses these parts."""

from __future__ import annotations

import importlib
import importlib.metadata
import re
import warnings
from typing import Any


def need(module: str, user: str, extra: str | None = None, package: str | None = None) -> Any:
    """The module. ImportError: names what to install. package: that it is in, extra: of contactd that brings it, where their names are others."""
    top = module.split(".")[0]
    package = package or top
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as e:
        if e.name != top:
            raise  # it is there, and what it needs is not
        raise ImportError(f"{user} needs the package {package}: pip install {package}, or pip install 'contactd[{extra or package}]'",
                          name=module) from None


def check_version(module: Any, user: str, least: tuple[int, ...], below: tuple[int, ...], package: str | None = None) -> None:
    """Warns where the package's version is outside the range that `user` is made for. package: it is asked where the module has no version."""
    version = str(getattr(module, "__version__", "") or _installed(package))
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    if numbers and not least <= numbers < below:
        made_for = f"{'.'.join(map(str, least))} to below {'.'.join(map(str, below))}"
        warnings.warn(f"{user} is made for {module.__name__} {made_for}, this is {version}", stacklevel=3)


def _installed(package: str | None) -> str:
    """The version as it was installed; empty: not by an installer that says so."""
    try:
        return importlib.metadata.version(package) if package else ""
    except importlib.metadata.PackageNotFoundError:
        return ""
