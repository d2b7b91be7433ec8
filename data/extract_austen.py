#!/usr/bin/env python3
"""Makes austen.txt from Debian's package r-cran-janeaustenr; Python's standard library is enough.

    apt-get download r-cran-janeaustenr
    dpkg-deb -x r-cran-janeaustenr_1.0.0-1_all.deb unpacked
    python3 extract_austen.py unpacked/usr/lib/R/site-library/janeaustenr/data/Rdata austen.txt

The package keeps each novel as a vector of lines in an R lazy-load database: NAME.rdx, an index of (offset, length)
by object name, and NAME.rdb, the compressed objects. Both hold R's XDR serialization ("R Internals", section 1.8).
"""

import bz2
import gzip
import lzma
import struct
import sys
import zlib

NOVELS = ["prideprejudice", "sensesensibility", "persuasion"]


class Reader:
    """The few types of R's XDR serialization that such a database uses."""

    def __init__(self, data):
        assert data[:2] == b"X\n", "not R's XDR serialization"
        self.data, self.at = data, 2
        version, _, _ = self.int(), self.int(), self.int()
        if version == 3:
            self.bytes(self.int())  # the name of the native encoding
        self.symbols = []

    def int(self):
        self.at += 4
        return struct.unpack_from(">i", self.data, self.at - 4)[0]

    def bytes(self, count):
        self.at += count
        return self.data[self.at - count : self.at]

    def item(self):
        flags = self.int()
        kind, has_attributes, has_tag = flags & 0xFF, flags & 0x200, flags & 0x400
        if kind == 0xFE:  # NULL
            return None
        if kind == 0xFF:  # a symbol seen before
            return self.symbols[(flags >> 8) - 1]
        if kind == 1:  # symbol
            self.symbols.append(self.item())
            return self.symbols[-1]
        if kind == 2:  # pair list, as a list of (tag, value)
            if has_attributes:
                self.item()
            tag = self.item() if has_tag else None
            value = self.item()
            return [(tag, value)] + (self.item() or [])
        if kind == 9:  # string
            length = self.int()
            return "" if length < 0 else self.bytes(length).decode("utf-8")
        count = self.int()
        if kind in (10, 13):  # truth values, integers
            value = list(struct.unpack(f">{count}i", self.bytes(4 * count)))
        elif kind in (16, 19):  # strings, list
            value = [self.item() for _ in range(count)]
        else:
            raise ValueError(f"R type {kind} is not expected here")
        attributes = dict(self.item()) if has_attributes else {}
        return dict(zip(attributes["names"], value)) if "names" in attributes else value


def decompress(block):
    """An object of the database: its length, then 'Z' (xz), '2' (bzip2) or '0' (plain) and bytes, or zlib's stream."""
    size, body = struct.unpack(">I", block[:4])[0], block[4:]
    if body[:1] == b"Z":
        raw = lzma.decompress(body[1:], format=lzma.FORMAT_RAW, filters=[{"id": lzma.FILTER_LZMA2, "preset": 6}])
    elif body[:1] == b"2":
        raw = bz2.decompress(body[1:])
    elif body[:1] == b"0":
        raw = body[1:]
    else:
        raw = zlib.decompress(body)
    assert len(raw) == size
    return raw


def main(database, output):
    with open(database + ".rdx", "rb") as file:
        index = Reader(gzip.decompress(file.read())).item()["variables"]
    with open(database + ".rdb", "rb") as file:
        blocks = file.read()
    with open(output, "w", encoding="utf-8", newline="\n") as file:
        for novel in NOVELS:
            offset, length = index[novel]
            lines = Reader(decompress(blocks[offset : offset + length])).item()
            file.write("\n".join(line.rstrip() for line in lines).strip("\n") + "\n\n\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
