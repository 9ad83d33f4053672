#!/usr/bin/env bash
# Shared by the scripts beside it; sourced, never run. Nothing in here changes the machine unless
# `install_packages` is called.

# Says what happens next.
say() {
  printf '\n== %s\n' "$*"
}

# Ends the script with a message that says what to do.
fail() {
  printf '\n%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

# Installs the named Debian packages, as root or through sudo, and says so beforehand.
install_packages() {
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || fail "please install these packages as root: $*"
    as_root=(sudo)
  fi
  command -v apt-get >/dev/null || fail "please install these packages: $*"
  say "installing packages: $*"
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "$@"
}

# Makes sure that Rust and a linker are there. Cargo itself fetches the version of Rust it needs
# when rustup manages it.
require_rust() {
  command -v cargo >/dev/null ||
    fail "cargo is missing; install Rust 1.95 or newer from https://rustup.rs and try again"
  command -v cc >/dev/null || install_packages gcc libc6-dev
}

check_format() {
  say "format"
  cargo fmt --all --check || fail "the code is not formatted; run \`make fix\`"
}

check_lints() {
  say "lints"
  cargo clippy --workspace --all-targets --locked -- --deny warnings --deny clippy::too_many_lines
}

# Runs tests of all packages, or those that the arguments choose. Always as one workspace: cargo would build again what
# single packages ask for with other features. Shows at the end what those that failed said last.
test_workspace() {
  rm -rf target/test-failures
  local status=0 output
  cargo test --workspace --locked --no-fail-fast --config 'target."cfg(unix)".runner = "scripts/test-runner"' "$@" ||
    status=$?
  for output in target/test-failures/*.failed; do
    [ -e "$output" ] || continue
    say "the end of what $(basename "$output" .failed) said; all of it is in $output"
    tail --lines=60 "$output"
  done
  return "$status"
}
