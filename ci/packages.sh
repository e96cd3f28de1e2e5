#!/usr/bin/env bash
# Installs the named packages of Debian or Ubuntu that are missing. Where it cannot, it says so: the
# tests that need them are skipped.
#
#   ci/packages.sh chromium kcat
set -uo pipefail

missing=()
for package in "$@"; do
    dpkg --status "$package" > /dev/null 2>&1 || missing+=("$package")
done
((${#missing[@]})) || exit 0

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo --non-interactive "$@"; fi; }

export DEBIAN_FRONTEND=noninteractive
echo "installing ${missing[*]}"
{ as_root apt-get -qq update \
    && as_root apt-get -qq install --yes --no-install-recommends "${missing[@]}"; } > /dev/null \
    || echo "could not install ${missing[*]}: tests that need them are skipped"
exit 0
