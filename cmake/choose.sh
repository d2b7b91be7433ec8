#!/bin/sh
# choose.sh USE REFERENCE MINE OUT: copies the object that USE names ("reference" or "mine") to OUT, if it differs.
set -eu
case $(cat "$1") in
  mine) object=$3 ;;
  *) object=$2 ;;
esac
cmp -s "$object" "$4" || cp "$object" "$4"
