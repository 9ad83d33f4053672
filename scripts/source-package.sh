#!/usr/bin/env bash
# The source package that benchmarks unpack, configure and build, and how it is fetched; sourced, never run.

# shellcheck disable=SC2034 # used by who sources this
package=dropbear

# Fetches the source package through a list of sources of its own, so that the machine's stays as it is.
fetch_source() {
  local folder=$1
  mkdir -p "$folder/lists/partial" "$folder/cache/archives/partial"
  echo "deb-src http://deb.debian.org/debian bookworm main" >"$folder/sources.list"
  local apt=(apt-get -qq -o "Dir::Etc::sourcelist=$folder/sources.list" -o Dir::Etc::sourceparts=/dev/null
    -o "Dir::State::lists=$folder/lists" -o "Dir::Cache=$folder/cache" -o APT::Sandbox::User=root)
  "${apt[@]}" update
  (cd "$folder" && "${apt[@]}" source --download-only "$package")
}
