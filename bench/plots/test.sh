#!/bin/sh
# The tests of the report's Python: what is read, said and drawn. Exit code 77: no Python here.
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=bench/plots/find_python.sh
. "$here/find_python.sh"
[ -n "$plain" ] || { echo "no python3: the report cannot be tested"; exit 77; }
cd "$here" || exit 1
exec "${python:-$plain}" -B -m unittest -q report_test report_drawing_test reported_test run_page_test
