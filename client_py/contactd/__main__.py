"""python -m contactd judge: see contactd.judge."""

from __future__ import annotations

import sys

from ._judge import main

if sys.argv[1:2] != ["judge"]:
    sys.exit("usage: python -m contactd judge --mesh NAME=FILE ... --poses FILE; judge --help says more. Servers are operated by contactctl.")
sys.exit(main(sys.argv[2:]))
