#!/usr/bin/env bash
# How long builds take, beside a plain `./configure && make && make install` of the same source, interleaved in one
# run. Needs git, a compiler, bison, flex and perl, and a clone of PostgreSQL's repository. Prints a Markdown table.
#
#   benches/builds.sh REPO [RELEASE [BRANCH [ROUNDS]]]
#
# RELEASE is built cold ROUNDS times in both ways; then ten neighbouring commits of BRANCH are built one after the other
# in a warm tree. ccache is switched off for all of it. REGTRACK names the program [default: target/release/regtrack].
set -euo pipefail

repo=$(cd "${1:?"usage: $0 REPO [RELEASE [BRANCH [ROUNDS]]]"}" && pwd)
release=${2:-16} branch=${3:-master} rounds=${4:-2}
regtrack=$(realpath "${REGTRACK:-target/release/regtrack}")
export CCACHE_DISABLE=1
unset CFLAGS LDFLAGS CPPFLAGS MAKEFLAGS

work=$(mktemp -d "${TMPDIR:-/tmp}/regtrack-builds.XXXXXX")
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"

# Runs a command with its output in a log; prints the seconds it took.
seconds() {
  local begin end
  begin=$(date +%s.%N)
  "$@" >"$work/log" 2>&1 || { tail -n 20 "$work/log" >&2; return 1; }
  end=$(date +%s.%N)
  echo "$end - $begin" | bc
}
median() { sort -n | awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'; }
ratio() { echo "scale=3; $1 / $2" | bc | sed 's/^\./0./'; }
build() { "$regtrack" build "$1" --source "git=$repo" --no-proof --cache "$2" --json; }

plain() (
  cd "$work/plain"
  # Without the libraries that a machine may lack, as regtrack does it: the comparison is harder that way.
  without=(--without-readline --without-zlib)
  ./configure --help | grep -q -- --without-icu && without+=(--without-icu)
  ./configure --prefix="$work/prefix" "${without[@]}" >/dev/null
  make -s -j"$(nproc)" >/dev/null
  make -s install >/dev/null
)

echo "# $(nproc) CPUs, $(gcc --version | head -n 1)" >&2
for round in $(seq "$rounds"); do
  seconds build "$release" "$work/cache-$round" >>"$work/ours"
  commit=$(sed -n 's/.*at \([0-9a-f]\{10\}\).*/\1/p' "$work/log" | head -n 1)
  rm -rf "$work/plain" "$work/prefix"
  mkdir "$work/plain"
  git -C "$repo" archive "$commit" | tar -x -C "$work/plain"
  seconds plain >>"$work/theirs"
  echo "# round $round: regtrack $(tail -n 1 "$work/ours") s, plain $(tail -n 1 "$work/theirs") s" >&2
done
for _ in 1 2 3 4 5; do seconds build "$release" "$work/cache-1" >>"$work/warm"; done

# Neighbours: the first is cold, ten more follow that compile something.
git -C "$repo" log --first-parent --reverse --format=%H -n 40 "$branch" >"$work/commits"
count=0
while read -r commit && [ "$count" -le 10 ]; do
  time=$(seconds build "$commit" "$work/cache-git") || { echo "# $commit does not compile" >&2; continue; }
  grep -q 'note: compiling' "$work/log" || continue
  if [ "$count" = 0 ]; then cold=$time; else echo "$time" >>"$work/next"; fi
  echo "# ${commit:0:10}: $time s" >&2
  count=$((count + 1))
done <"$work/commits"

ours=$(median <"$work/ours") theirs=$(median <"$work/theirs") next=$(median <"$work/next")
cat <<END
| What | Seconds | Ratio |
|---|---:|---:|
| $release: plain configure, make, make install (median of $rounds) | $theirs | 1 |
| $release: \`regtrack build\`, cold (median of $rounds) | $ours | $(ratio "$ours" "$theirs") |
| $release: \`regtrack build\`, in the cache (median of 5) | $(median <"$work/warm") | |
| $branch: a commit, cold | $cold | 1 |
| $branch: the next commit (median of $(wc -l <"$work/next")) | $next | $(ratio "$next" "$cold") |
END
