#!/usr/bin/env bash
# Fails if a function is reached from no program and no test: deadcode.sh [PATTERN...]. Methods that
# encoding/json calls by reflection are not seen by the analysis.
set -euo pipefail
cd "$(dirname "$0")/.."

all=$(bin/tools/deadcode -test "${@:-./...}")
found=$(grep -vE '\.(Unm|M)arshal(JSON|Text)$' <<<"$all" || true)
[ -z "$found" ] || { printf '%s\n' "$found" "deadcode: delete these functions, or test them" >&2; exit 1; }
