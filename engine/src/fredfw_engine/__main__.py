"""Print where the engine is: ``python -m fredfw_engine --cmake-dir``."""

import argparse

from fredfw_engine import CMAKE, INCLUDE, library

parser = argparse.ArgumentParser(prog="python -m fredfw_engine", description="Print where the engine of fredfw is.")
what = parser.add_mutually_exclusive_group(required=True)
what.add_argument("--cmake-dir", action="store_const", dest="place", const=lambda: CMAKE, help="for CMake's fredfw_DIR")
what.add_argument("--include-dir", action="store_const", dest="place", const=lambda: INCLUDE, help="of fredfw.h")
what.add_argument("--library", action="store_const", dest="place", const=library, help="the library itself")
print(parser.parse_args().place())
