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

# Builds test programs, and prints the folder of its package and the program of each as soon as it is there. Always as one
# workspace: cargo would build again what single packages ask for with other features.
test_programs() {
  cargo test --workspace --locked --no-run --message-format json-render-diagnostics "$@" |
    sed -nu 's/.*"manifest_path":"\([^"]*\)\/Cargo.toml".*"profile":{[^}]*"test":true}.*"executable":"\([^"]*\)".*/\1 \2/p'
}

# Where the test programs that are built are listed.
built=target/test-programs

# Builds test programs, then runs the lints if they are to run beside the tests. All of it takes what the tests leave of the
# processors.
build_beside_tests() {
  local status=0
  renice --priority 19 "$BASHPID" >/dev/null
  test_programs "$@" >"$built" || status=$?
  echo "$status" >"$built.ended"
  if [ "$status" -eq 0 ] && [ -n "${LINTS_BESIDE_TESTS:-}" ]; then
    (check_lints && check_documentation) &>target/lints
  fi
}

# Prints the test program to run next, of those that are built, have not begun and do not match `later`: those with many tests
# first, since they end last.
next_program() {
  local begun=$1 later=$2 rest
  rest=$(grep --invert-match "$later" "$built" | grep --invert-match --line-regexp --fixed-strings --file="$begun" || true)
  { grep --max-count=1 '/integration-[0-9a-f]*$' <<<"$rest" || head --lines=1 <<<"$rest"; } | sed '/^$/d'
}

# Runs test programs as soon as they are built, except those that match `later`; what follows goes to the programs.
run_as_built() {
  local later=$1 begun=target/test-programs.begun program ended status=0 running=()
  shift
  : >"$begun"
  while :; do
    ended=$(cat "$built.ended" 2>/dev/null || true)
    program=$(next_program "$begun" "$later")
    if [ -z "$program" ] && [ -n "$ended" ]; then
      break
    elif [ -z "$program" ]; then
      sleep 1
      continue
    fi
    echo "$program" >>"$begun"
    # shellcheck disable=SC2086 # A folder and a program.
    scripts/test-runner "$@" $program &
    running+=($!)
    while [ ${#running[@]} -ge "$test_programs_at_once" ]; do
      wait -n -p program "${running[@]}" || status=$?
      mapfile -t running < <(printf '%s\n' "${running[@]}" | grep --invert-match --line-regexp "$program")
    done
  done
  for program in "${running[@]}"; do
    wait "$program" || status=$?
  done
  return "$status"
}

# Runs tests of all packages, or those that the arguments choose; what stands behind `--` goes to the programs. They begin while
# others are built. When most have ended, the two with stories of guests run side by side, then others with networks of their own
# one after another. Shows at the end what those that failed said last.
# With LINTS_BESIDE_TESTS the lints run meanwhile, with what the tests leave of the processors.
test_workspace() {
  rm -rf target/test-failures "$built" "$built.ended"
  local chosen=() programs beside status=0 output
  while [ $# -gt 0 ] && [ "$1" != -- ]; do
    chosen+=("$1")
    shift
  done
  [ $# -eq 0 ] || shift
  mkdir -p target
  : >"$built"
  build_beside_tests "${chosen[@]}" &
  beside=$!
  local of_machine='/crates/\(meridian .*/\(kernel\|sites\)-\|nfs4-client \|testbed \)'
  run_as_built "$of_machine" "$@" || status=$?
  if [ "$(cat "$built.ended")" -ne 0 ]; then
    fail "the tests could not be built"
  fi
  [ -s "$built" ] || fail "cargo named no test program"
  programs=$(sed --quiet "\\#$of_machine#p" "$built")
  local guests='/crates/meridian '
  sed --quiet "\\#$guests#p" <<<"$programs" |
    xargs --no-run-if-empty --max-lines=1 --max-procs=2 scripts/test-runner "$@" || status=$?
  local linted=0
  wait "$beside" || linted=$?
  if [ -n "${LINTS_BESIDE_TESTS:-}" ]; then
    say "lints"
    cat target/lints
    [ "$linted" -eq 0 ] || status=$linted
  fi
  sed "\\#$guests#d" <<<"$programs" |
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
    grep --extended-regexp '^test .* FAILED$' target/test-failures/*.failed || true
  fi
  if [ "${linted:-0}" -ne 0 ]; then
    say "lints found something, too"
    grep --extended-regexp --after-context=1 '^(error|warning)' target/lints || true
  fi
  return "$status"
}
