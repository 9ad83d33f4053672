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
  cargo clippy --workspace --all-targets --locked -- --deny warnings
}

check_documentation() {
  say "documentation of the code"
  RUSTDOCFLAGS="--deny warnings" cargo doc --workspace --no-deps --locked --quiet
}

# At most this many test programs run at once: they mostly wait for leases, timers and disks.
test_programs_at_once=${TEST_PROGRAMS_AT_ONCE:-3}

# Builds test programs, and prints the folder of its package and the program of each. Always as one workspace: cargo would build
# again what single packages ask for with other features.
test_programs() {
  cargo test --workspace --locked --no-run --message-format json-render-diagnostics "$@" |
    sed -n 's/.*"manifest_path":"\([^"]*\)\/Cargo.toml".*"profile":{[^}]*"test":true}.*"executable":"\([^"]*\)".*/\1 \2/p'
}

# Puts the programs that take longest first, since they end last.
longest_first() {
  local all pattern
  all=$(cat)
  for pattern in '/crates/meridian .*/sites-' '/crates/\(meridian\|replica\) .*/\(integration\|replica\)-' '/crates/meridian .*/kernel-' '/integration-' ''; do
    grep "$pattern" <<<"$all" || true
    all=$(grep --invert-match "$pattern" <<<"$all" || true)
  done
}

# Runs tests of all packages, or those that the arguments choose; what stands behind `--` goes to the programs. When most have ended,
# those follow one after another that count what the machine does, or take networks that others use, too. Shows at the end what those
# that failed said last.
# With LINTS_BESIDE_TESTS the lints run meanwhile, with what the tests leave of the processors.
test_workspace() {
  rm -rf target/test-failures
  local chosen=() programs lints='' status=0 output
  while [ $# -gt 0 ] && [ "$1" != -- ]; do
    chosen+=("$1")
    shift
  done
  [ $# -eq 0 ] || shift
  programs=$(test_programs "${chosen[@]}") || return
  [ -n "$programs" ] || fail "cargo named no test program"
  if [ -n "${LINTS_BESIDE_TESTS:-}" ]; then
    (renice --priority 19 "$BASHPID" >/dev/null && check_lints && check_documentation) &>target/lints &
    lints=$!
  fi
  local alone='/crates/\(nfs4-client\|testbed\) '
  sed "\\#$alone#d" <<<"$programs" | longest_first |
    xargs --no-run-if-empty --max-lines=1 --max-procs="$test_programs_at_once" scripts/test-runner "$@" || status=$?
  if [ -n "$lints" ]; then
    say "lints"
    local linted=0
    wait "$lints" || linted=$?
    cat target/lints
    [ "$linted" -eq 0 ] || status=$linted
  fi
  sed --quiet "\\#$alone#p" <<<"$programs" |
    xargs --no-run-if-empty --max-lines=1 scripts/test-runner "$@" || status=$?
  if [ ${#chosen[@]} -eq 0 ]; then
    cargo test --workspace --locked --doc || status=$?
  fi
  for output in target/test-failures/*.failed; do
    [ -e "$output" ] || continue
    say "the end of what $(basename "$output" .failed) said; all of it is in $output"
    tail --lines=60 "$output"
  done
  if compgen -G 'target/test-failures/*.failed' >/dev/null; then
    say "what failed"
    grep --extended-regexp '^test .* FAILED( \(.*\))?$' target/test-failures/*.failed || true
  fi
  if [ "${linted:-0}" -ne 0 ]; then
    say "lints found something, too"
    grep --extended-regexp --after-context=1 '^(error|warning)' target/lints || true
  fi
  return "$status"
}
