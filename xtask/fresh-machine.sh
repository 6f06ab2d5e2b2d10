#!/bin/bash
# Shows that a clone and two commands are enough: makes a clean Debian 12 in a directory, with git, make, gcc and cargo in it and no more, and
# runs `make demo` and `make test` there on what is committed here.
#
#     xtask/fresh-machine.sh DIRECTORY [COMMAND…]      (as root, with debootstrap; DIRECTORY must not exist)
#
# COMMAND… replaces the two. The directory stays; nothing outside it is changed. It takes about 6 GB.
set -euo pipefail

if [ $# -lt 1 ]; then
    sed -n '2,8s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
directory=$1
shift
if [ -e "$directory" ]; then
    echo "$directory exists already" >&2
    exit 2
fi
if [ "$(id -u)" != 0 ] || ! command -v debootstrap >/dev/null; then
    echo "This needs to be root, and debootstrap" >&2
    exit 2
fi
project=$(cd "$(dirname "$0")/.." && pwd)

debootstrap --variant=minbase --include=git,make,gcc,libc6-dev,ca-certificates,curl bookworm "$directory" http://deb.debian.org/debian
cp /etc/resolv.conf "$directory/etc/resolv.conf"
# It trusts whom this machine trusts: a proxy on the way may have a certificate of its own.
cp /etc/ssl/certs/ca-certificates.crt "$directory/etc/ssl/certs/ca-certificates.crt"
git clone --quiet --no-hardlinks "$project" "$directory/root/project"

cat >"$directory/root/go" <<'END'
set -eu
cd /root/project
export HOME=/root PATH=/root/.cargo/bin:$PATH
curl --silent --show-error --fail --output /root/rustup-init https://static.rust-lang.org/rustup/dist/x86_64-unknown-linux-gnu/rustup-init
chmod +x /root/rustup-init
/root/rustup-init -y --quiet --profile minimal --default-toolchain none
if [ $# -gt 0 ]; then
    exec "$@"
fi
make demo </dev/null
make test </dev/null
END

# The mounts are this command's own and end with it.
exec unshare --mount --pid --fork --kill-child bash -euc '
    mount --make-rprivate /
    mount -t proc proc "$0/proc"
    mount -t sysfs sysfs "$0/sys"
    mount --rbind /dev "$0/dev"
    mount -t tmpfs tmpfs "$0/dev/shm"
    exec chroot "$0" /usr/bin/env -i TERM=dumb LANG=C.UTF-8 PATH=/usr/sbin:/usr/bin:/sbin:/bin bash /root/go "$@"
' "$directory" "$@"
