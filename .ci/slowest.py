"""The ten slowest tests of runs of pytest, by the JUnit files that are the arguments; some may be absent."""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree

cases = [
    (float(case.attrib["time"]), f"{case.attrib['classname'].replace('.', '/')}.py::{case.attrib['name']}")
    for path in map(Path, sys.argv[1:])
    if path.is_file()
    for case in ElementTree.parse(path).iter("testcase")
]
if cases:
    print("== the ten slowest tests, with their setups")
for seconds, name in sorted(cases, reverse=True)[:10]:
    print(f"{seconds:7.1f} s  {name}")
