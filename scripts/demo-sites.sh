#!/usr/bin/env bash
# The sites of scripts/demo and the servers in them; sourced, never run. It uses the variables `work`,
# `testbed`, `meridian`, `sites`, `round_trip` and `as_root` of the script that sources it.
# shellcheck disable=SC2154

# shellcheck source=scripts/networks.sh
. scripts/networks.sh

# Ports of a server: its clients', those of a server without replicas, the other replicas'.
nfs_port=2049 alone_port=2050 peer_port=7643
# What DNS calls them all.
domain=demo.example

# Makes the sites and their WAN, which live as long as file descriptor 9 is open.
start_sites() {
  say "three sites, $round_trip ms between each two (network namespaces, joined by a program that delays packets)"
  start_networks alpha,beta,gamma --delay $((round_trip / 2))ms
  "${as_root[@]}" "$testbed" wan --control "$control" sites | sed 's/^/   /'
  "${as_root[@]}" "$testbed" wan --control "$control" ping alpha beta | sed 's/^/   /'
}

# usage: address_of SITE | alone | set | far: where clients at alpha find it
address_of() {
  case $1 in
    alpha | set) echo "10.200.1.1:$nfs_port" ;;
    beta) echo "10.200.2.1:$nfs_port" ;;
    gamma) echo "10.200.3.1:$nfs_port" ;;
    alone) echo "10.200.1.1:$alone_port" ;;
    far) echo "10.200.2.1:$alone_port" ;;
  esac
}

# usage: host_of SITE
host_of() {
  address_of "$1" | cut -d : -f 1
}

# usage: peer_address_of SITE
peer_address_of() {
  echo "$(host_of "$1"):$peer_port"
}

# A set of three replicas, and two servers without.
start_servers() {
  start_set
  publish_domain
  serve alpha alone "$(address_of alone)"
  serve beta far "$(address_of far)"
  await_answer alone
  await_answer far
}

# A set of three replicas, in touch with each other.
start_set() {
  say "a set of three replicas"
  printf '[names]\ndomain = "%s"\n' "$domain" >"$work/meridian.toml"
  echo "   alpha \$ meridian set create --name alpha --address $(peer_address_of alpha)"
  at alpha "$meridian" set create --data "$work/alpha" --name alpha --address "$(peer_address_of alpha)" >"$work/alpha.set"
  head -n 1 "$work/alpha.set" | sed 's/^/   /'
  serve alpha alpha "$(address_of alpha)"
  local site token
  for site in beta gamma; do
    await_answer alpha
    echo "   alpha \$ meridian set invite --name $site"
    token=$(at alpha "$meridian" set invite --name "$site" --data "$work/alpha" 2>"$work/invitation") || {
      cat "$work/invitation" >&2
      fail "alpha could not invite $site"
    }
    at "$site" "$meridian" set join "$token" --data "$work/$site" --address "$(peer_address_of "$site")" \
      >"$work/$site.set"
    echo "   $site \$ meridian set join ${token:0:14}... --address $(peer_address_of "$site")"
    head -n 1 "$work/$site.set" | sed 's/^/   /'
    serve "$site" "$site" "$(address_of "$site")"
  done
  for site in "${sites[@]}"; do
    await_set "$site"
    echo "   $site is ready: mount -t nfs4 $(host_of "$site"):/export"
  done
}

# Has a DNS server at beta and at gamma that has the records of the domain.
publish_domain() {
  local site
  echo "   alpha \$ meridian domain records $domain     # what DNS servers at beta and gamma say"
  at alpha "$meridian" domain records "$domain" --data "$work/alpha" >"$work/zone" 2>"$work/zone.remarks"
  sed 's/^/     /' "$work/zone"
  for site in beta gamma; do
    {
      printf 'listen-address=%s\nbind-interfaces\nno-resolv\nno-hosts\nlocal=/%s/\n' "$(host_of "$site")" "$domain"
      awk '{ sub(/\.$/, "", $1) }
        $4 == "SRV" { sub(/\.$/, "", $8); print "srv-host=" $1 "," $8 "," $7 "," $5 "," $6 }
        $4 == "A" { print "host-record=" $1 "," $5 }' "$work/zone"
    } >"$work/$site.dns"
    at "$site" /usr/sbin/dnsmasq --no-daemon --conf-file="$work/$site.dns" >"$work/$site.dns.log" 2>&1 9>&- &
  done
}

# usage: serve SITE NAME ADDRESS:PORT
serve() {
  at "$1" "$meridian" serve --config "$work/meridian.toml" --data "$work/$2" --listen "$3" >"$work/$2.log" 2>&1 9>&- &
}

await_set() {
  await "$1" "did not find the others" is_in_touch "$1"
}

# Whether a replica has the tree, and connections to all others.
is_in_touch() {
  local text
  text=$(status_of "$1") || return 1
  grep -q '^  replica .*, ready$' <<<"$text" && [ "$(grep -c '    connected, round trip' <<<"$text")" -eq 2 ]
}

# Waits until nobody lacks anything, however long that takes.
wait_until_shipped() {
  local lacks last=
  while lacks=$(status_of alpha | sed -n 's/^    \(lacks .*\)/\1/p') && [ -n "$lacks" ]; do
    lacks=${lacks%%$'\n'*}
    if [ "$lacks" != "$last" ]; then echo "   a peer $lacks"; fi
    last=$lacks
    sleep 0.5
  done
}

# Who controls what, as each site sees it, the first few of each, and what alpha's peers lack.
show_controls() {
  local site
  echo "   who controls what now (meridian status of each site):"
  for site in "${sites[@]}"; do
    status_of "$site" | awk -v site="$site" '
      listed { sub(/^ +/, ""); if (++shown <= 3) print "       " $0 }
      /^  controls / { listed = 1; total = $2; print "     " site ": " total " controls" }
      END { if (shown > 3) print "       and " total - 3 " more" }'
  done
  status_of alpha | sed -n 's/^    \(lacks .*\|has everything\)$/     a peer of alpha \1/p'
}
