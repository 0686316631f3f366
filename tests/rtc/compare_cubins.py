#!/usr/bin/env python3
"""Developer's tool: compares what two folders of rtc_dump_corpus run, cubin by cubin.

Equal are two of one name that have the same code, constants and bytes of shared memory; the names
of their sections and symbols do not count.
"""

import pathlib
import struct
import sys

NOBITS = 8  # a section that has a size and no bytes


def sections(cubin):
    """(name, type, bytes or size) of each section of an ELF64 file."""
    table, = struct.unpack_from("<Q", cubin, 40)
    entry, count, names = struct.unpack_from("<HHH", cubin, 58)
    rows = [struct.unpack_from("<IIQQQQ", cubin, table + i * entry) for i in range(count)]
    strings = rows[names][4]
    for name, kind, _, _, offset, size in rows:
        start = strings + name
        text = cubin[start:cubin.index(b"\0", start)].decode()
        yield text, kind, size if kind == NOBITS else cubin[offset:offset + size]


def what_runs(path):
    """Kind and content of the sections that decide what a kernel does, in their order."""
    kept = (".text.", ".nv.constant", ".nv.shared.")
    return [(next(kind for kind in kept if name.startswith(kind)), content)
            for name, _, content in sections(path.read_bytes()) if name.startswith(kept)]


def main():
    if len(sys.argv) != 3:
        sys.exit("usage: compare_cubins.py FOLDER FOLDER")
    base, other = ({path.name: path for path in pathlib.Path(folder).glob("*.cubin")}
                   for folder in sys.argv[1:])
    for name in sorted(base.keys() ^ other.keys()):
        print(f"only in {sys.argv[1] if name in base else sys.argv[2]}: {name}")
    both = sorted(base.keys() & other.keys())
    different = [name for name in both if what_runs(base[name]) != what_runs(other[name])]
    for name in different:
        print(f"different: {name}")
    print(f"{len(both) - len(different)} equal, {len(different)} different, "
          f"{len(base.keys() ^ other.keys())} in one folder only")
    return bool(different or not both or base.keys() != other.keys())


if __name__ == "__main__":
    sys.exit(main())
