"""What figures.py and page.py are called with. Standard library only."""

import argparse
import pathlib

from prices import machine_named


def price(text):
    """2.50 or 2.50/h, as ./lab plan takes it; report.sh has checked it."""
    return float(text.removesuffix("/h"))


def arguments(words):
    parser = argparse.ArgumentParser(description=words.splitlines()[0])
    parser.add_argument("out", type=pathlib.Path, help="the report's folder")
    parser.add_argument(
        "--from", dest="folder", type=pathlib.Path, help="a file or folder of results, in place of OUT/data"
    )
    parser.add_argument("--of", choices=("run", "plan"), help="what OUT/data holds: one run's files, or plans")
    parser.add_argument("--price", type=price, help="with --of run: of a rank for an hour, in any currency")
    parser.add_argument("--machine", type=machine_named, help="what collectives of nccl-tests are predicted for")
    parser.add_argument(
        "--style", action="append", default=[], choices=("paper", "slides"), help="figures for print or for slides too"
    )
    parser.add_argument(
        "--week", type=int, choices=range(21, 26), help="of page.py: one week's sections, and the write-up"
    )
    parser.add_argument("--full", action="store_true", help="of page.py: tables open, and everything printed")
    parser.add_argument("--no-matplotlib", action="store_true", help="of page.py: no figures could be drawn")
    return parser.parse_args()
