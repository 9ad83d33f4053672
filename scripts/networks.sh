#!/usr/bin/env bash
# Machines of demonstrations, each a network namespace of its own, and the servers in them; sourced, never run. It uses the variables
# `work`, `testbed`, `meridian` and `as_root` of the script that sources it; `as_root` is empty, or sudo.
# shellcheck disable=SC2154

# usage: become_able [OPTION...]: gets root, and what guests and their networks need; options as of `testbed requirements`
become_able() {
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || fail "networks of machines need root, and there is no sudo"
    say "networks of machines need root; sudo may ask for your password"
    sudo --validate
    as_root=(sudo)
  fi
  "${as_root[@]}" "$testbed" requirements --wan "$@" >"$work/lacks" && return
  say "this machine lacks something, which is installed if it can be:"
  sed 's/^/   /' "$work/lacks"
  "${as_root[@]}" "$testbed" requirements --wan "$@" --install >"$work/installation" 2>&1 && return
  tail -n 5 "$work/installation" >&2
  fail "networks of machines cannot be set up here; \`make demo-single\` shows a single server in more surroundings"
}

# usage: start_networks NAME,NAME,... LINK-OPTION...: they live as long as file descriptor 9 is open
start_networks() {
  mkfifo "$work/hold"
  "${as_root[@]}" "$testbed" wan up --sites "$@" --until-eof <"$work/hold" >"$work/wan" 2>&1 &
  wan=$!
  exec 9>"$work/hold"
  until grep -q '^ready$' "$work/wan"; do
    if ! kill -0 "$wan" 2>/dev/null; then
      cat "$work/wan" >&2
      fail "the networks could not be set up"
    fi
    sleep 0.1
  done
  control=$(sed -n 's/^control //p' "$work/wan")
}

# Everything in the networks ends with them.
stop_networks() {
  exec 9>&-
  if [ -z "${wan:-}" ]; then return; fi
  "${as_root[@]}" kill "$wan" 2>/dev/null || true
  wait "$wan" 2>/dev/null || true
}

# usage: at MACHINE COMMAND...
at() {
  "${as_root[@]}" "$testbed" wan --control "$control" exec "$@" 9>&-
}

# usage: status_of NAME [OPTION]
status_of() {
  "${as_root[@]}" "$meridian" status --data "$work/$1" "${@:2}" 2>/dev/null
}

# usage: await NAME WHAT COMMAND...: until the command succeeds, half a minute at most
await() {
  local attempt
  for ((attempt = 0; attempt < 300; attempt++)); do
    if "${@:3}"; then return; fi
    sleep 0.1
  done
  tail -n 20 "$work/$1.log" >&2
  fail "the server $1 $2; above is what it said last"
}

await_answer() {
  await "$1" "did not start" answers "$1"
}

answers() {
  status_of "$1" >/dev/null
}
