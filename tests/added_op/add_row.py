#!/usr/bin/env python3
"""ops.def with the example row of docs/adding-an-op.md as its last, and what the page says of it.

add_row.py OPS_DEF PAGE OUTPUT: writes OUTPUT/ir/ops.def and OUTPUT/added_op.h."""

import pathlib
import re
import sys


def main():
    table, page, output = map(pathlib.Path, sys.argv[1:])
    blocks = re.findall(r"^```text\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    rows = [block for block in blocks if re.match(r"EPIFUSE_OP\(\w+,\s*\d", block)]
    if len(rows) != 1:
        sys.exit(f"{page}: expected one example row, got {len(rows)}")
    name = re.match(r"EPIFUSE_OP\((\w+)", rows[0])[1]
    values = "".join(block for block in blocks if block.startswith(f"{name} "))
    (output / "ir").mkdir(parents=True, exist_ok=True)
    (output / "ir/ops.def").write_text(table.read_text() + rows[0])
    (output / "added_op.h").write_text(
        f'#pragma once\nconstexpr const char* kAddedOp = "{name}";\n'
        f'constexpr const char* kAddedValues = R"({values})";\n')


if __name__ == "__main__":
    main()
