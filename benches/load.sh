#!/usr/bin/env bash
# How long regtrack takes to fill the table, beside `sysbench oltp_read_only prepare` on the same server, in turn in one
# run: the same rows by number and form, both indexes, and on regtrack's side the digest. Needs sysbench. Prints a
# Markdown table.
#
#   benches/load.sh [RELEASE [ROWS [ROUNDS [ARGUMENT…]]]]
#
# By default 17, 5,000,000 rows, 4 rounds: about ten minutes and 4 GB in /var/tmp on a machine with two CPUs. Further
# arguments go to `regtrack parity`, such as `--source prefix=DIR` or `--transport unix`. REGTRACK names the program
# [default: target/release/regtrack].
set -euo pipefail

release=${1:-17} rows=${2:-5000000} rounds=${3:-4}
shift $(($# < 3 ? $# : 3))
regtrack=${REGTRACK:-target/release/regtrack}

json=$("$regtrack" parity "$release" --load --rows "$rows" --rounds "$rounds" --json "$@")
value() { sed -n "s/^ *\"$1\": \([0-9.]*\),*$/\1/p" <<<"$json"; }
cat <<END
| Loading $rows rows, $rounds rounds | Rows per second | Ratio |
|---|---:|---:|
| \`sysbench prepare\` | $(printf %.0f "$(value sysbench_rows_per_second)") | 1 |
| regtrack, digest included | $(printf %.0f "$(value regtrack_rows_per_second)") | $(printf %.2f "$(value load_ratio)") |
END
