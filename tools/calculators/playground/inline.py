#!/usr/bin/env python3
"""Puts texts into a page: NAME=text, or NAME=file,file takes the place of /*NAME*/, which stands there once.

inline.py PAGE.html OUT.html NAME=… …
"""

import os
import sys

page, out, *texts = sys.argv[1:]
with open(page, encoding="utf-8") as file:
    html = file.read()
for text in texts:
    name, _, value = text.partition("=")
    files = [each for each in value.split(",") if each]
    if all(os.path.isfile(each) for each in files):
        value = ""
        for each in files:
            with open(each, encoding="utf-8") as file:
                value += file.read().rstrip("\n") + "\n"
    before, after = html.split(f"/*{name}*/")
    html = before + value.rstrip("\n") + after
with open(out, "w", encoding="utf-8") as file:
    file.write(html)
