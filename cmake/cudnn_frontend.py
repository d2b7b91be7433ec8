"""Prints the folder in which Python's package nvidia-cudnn-frontend keeps its C++ headers, if it is installed."""

from importlib.metadata import PackageNotFoundError, files

try:
    headers = [file for file in files("nvidia-cudnn-frontend") or [] if file.name == "cudnn_frontend.h"]
except PackageNotFoundError:
    headers = []
for header in headers[:1]:
    print(header.locate().resolve().parent)
