#!/bin/sh
# The quick tests on each interpreter from 3.11 to 3.14 that is on this machine: on PATH, of pyenv, or of uv. Each has a
# locked environment of its own in build/. Interpreters that are not there are named.
set -eu
cd "$(dirname "$0")/../.."
lacking= failed=
for version in ${VERSIONS:-3.11 3.12 3.13 3.14}; do
    found=
    for python in "$(command -v "python$version" || true)" \
        "$HOME"/.pyenv/versions/"$version".*/bin/python"$version" \
        "$HOME"/.local/share/uv/python/cpython-"$version".*/bin/python"$version"; do
        if [ -x "$python" ] && "$python" -c "import ensurepip, sys; sys.exit(sys.version_info.releaselevel != 'final')" 2>/dev/null; then
            found=$python
        fi
    done
    if [ -z "$found" ]; then
        lacking="$lacking $version"
        continue
    fi
    echo "Python $version: $found"
    make --no-print-directory VENV="build/python-$version" PYTHON="$found" quick-tests || failed="$failed $version"
done
[ -z "$lacking" ] || echo "not on this machine:$lacking" >&2
[ -z "$failed" ] || { echo "failed on:$failed" >&2; exit 1; }
