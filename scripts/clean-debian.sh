#!/usr/bin/env bash
# A Debian of its own, of this machine's release, for what installs packages; sourced, never run.

# usage: clean_debian FOLDER: makes the folder, with systemd, autofs and what clients of NFS need in it
clean_debian() {
  local release clean
  release=$(. /etc/os-release && echo "$VERSION_CODENAME")
  clean=target/tools/debian-$release-autofs.tar
  command -v mmdebstrap >/dev/null || install_packages mmdebstrap
  mkdir -p target/tools
  [ -e "$clean" ] || {
    mmdebstrap --quiet --format=tar --variant=minbase --include=systemd,systemd-sysv,autofs,nfs-common "$release" "$clean.new"
    mv "$clean.new" "$clean"
  }
  mkdir "$1"
  tar -C "$1" -xf "$clean" --exclude='./dev/*'
}
