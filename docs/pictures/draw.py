#!/usr/bin/env python3
"""The course's figures, from what the suite's own programs compute.

  python3 docs/pictures/draw.py [NAME…]           writes docs/pictures/NAME.svg; without names, all of them
  python3 docs/pictures/draw.py --check [NAME…]   writes nothing; fails where a committed figure is not what this draws

A figure is a function in figures/, named as its file, that returns a Canvas. Time in the simulator is virtual, so the
same suite draws the same bytes.
"""

import argparse
import pathlib
import sys

from figures import all_reduce, data_parallel, mesh, messages, pipeline, scaling, tensor, zero

FOLDER = pathlib.Path(__file__).resolve().parent
FIGURES = [
    messages.deadlock,
    messages.barrier,
    messages.ports,
    all_reduce.ring_animated,
    all_reduce.ring_one_rank,
    all_reduce.butterfly,
    all_reduce.rails,
    all_reduce.regimes,
    data_parallel.buckets,
    zero.zero_bars,
    zero.fsdp_timeline,
    zero.activations,
    tensor.tensor_shards,
    tensor.sequence_parallel,
    tensor.tensor_then_fsdp,
    pipeline.schedules,
    mesh.mesh,
    scaling.scaling,
]


def differs(figure):
    """Writes a figure, or says whether the committed one differs."""
    path = FOLDER / f"{figure.__name__}.svg"
    return not path.exists() or path.read_text() != figure().svg()


def main():
    parser = argparse.ArgumentParser(description="Draws the course's figures.")
    parser.add_argument("--check", action="store_true", help="compare with what is committed")
    parser.add_argument("name", nargs="*", choices=[[], *(f.__name__ for f in FIGURES)], help="figures; default: all")
    options = parser.parse_args()
    chosen = [f for f in FIGURES if not options.name or f.__name__ in options.name]
    if not options.check:
        for figure in chosen:
            (FOLDER / f"{figure.__name__}.svg").write_text(figure().svg())
        return 0
    stale = [f.__name__ for f in chosen if differs(f)]
    for name in stale:
        print(f"docs/pictures/{name}.svg is not what docs/pictures/draw.py draws: run it, and look at the figure")
    print(f"{len(chosen) - len(stale)} of {len(chosen)} figures are what the suite draws")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
