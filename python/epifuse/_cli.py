"""The command `epifuse`: the program that the wheel carries."""

import os
import pathlib
import sys


def main():
    program = pathlib.Path(__file__).parent / "bin" / "epifuse"
    if not program.exists():
        sys.exit(f"the epifuse program is not at {program}: install epifuse with pip")
    os.execv(program, [str(program), *sys.argv[1:]])


if __name__ == "__main__":
    main()
