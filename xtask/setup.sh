#!/bin/sh
# Checks what building, the demo and the tests need, and installs what is missing when run as root on a machine with apt-get. Otherwise it
# says in one line what to install, and fails. A shell script because it must run before cargo can. It prints nothing when nothing is missing.
#
#     setup.sh         for building and the demo
#     setup.sh test    for the tests as well
#
# Some tests record programs of the system. Those are installed, too, but not where systemd runs: some are servers, which it would start.
# A test whose program is not there is left out.
#
# Needed: cargo by rustup (with the toolchain and targets of rust-toolchain.toml), gcc, binutils, the C library's headers and its
# debug symbols (frames inside abort() have names by them), gdb 12 or later with Python, git, pkg-config; for the tests g++ too, which builds the
# fuzz targets' library, and python3.
set -u
purpose=${1:-}
cd "$(dirname "$0")/.." || exit 1

have() { command -v "$1" >/dev/null 2>&1; }

have_gdb() {
    have gdb && [ "$(gdb --batch -nx -ex 'python print(int(gdb.VERSION.split(".")[0]) >= 12)' 2>/dev/null)" = True ]
}

have_libc_headers() { echo '#include <stdio.h>' | gcc -E - >/dev/null 2>&1; }

# The C library has symbols of its own, or a file of them that gdb finds by build-id.
have_libc_symbols() {
    libc=$(gcc -print-file-name=libc.so.6 2>/dev/null) || return 1
    readelf --sections --wide "$libc" 2>/dev/null | grep -q '\.debug_info' && return 0
    id=$(readelf --notes "$libc" 2>/dev/null | sed -n 's/.*Build ID: //p')
    [ -n "$id" ] && [ -e "/usr/lib/debug/.build-id/$(echo "$id" | cut -c1-2)/$(echo "$id" | cut -c3-).debug" ]
}

# Debian's names of the packages that are missing.
missing() {
    have git || echo git
    have gcc || echo gcc
    have ld && have readelf || echo binutils
    have_libc_headers || echo libc6-dev
    have_libc_symbols || echo libc6-dbg
    have_gdb || echo gdb
    have pkg-config || echo pkg-config
    [ "$purpose" != test ] || have g++ || echo g++
    [ "$purpose" != test ] || have python3 || echo python3
}

# Programs that some tests record, as PACKAGE:PROGRAM by Debian's names.
subjects='bc:bc bzip2:bzip2 curl:curl dc:dc gawk:gawk m4:m4 nginx-light:nginx openssl:openssl perl:perl postgresql:postgres
    sqlite3:sqlite3 xz-utils:xz zstd:zstd'

# Debian's names of the packages of those that are missing. Servers are not always on the path.
missing_subjects() {
    for subject in $subjects; do
        PATH=$PATH:/usr/sbin:$(echo /usr/lib/postgresql/*/bin | tr ' ' ':') command -v "${subject#*:}" >/dev/null 2>&1 || echo "${subject%:*}"
    done
}

can_install() { [ "$(id -u)" = 0 ] && have apt-get; }

# The words are Debian's names of packages.
install() {
    echo "Installing: $*"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq && apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

packages=$(missing | tr '\n' ' ')
if [ -n "$packages" ] && can_install; then
    # shellcheck disable=SC2086 # a list of words
    install $packages || exit 1
    packages=$(missing | tr '\n' ' ')
fi
if [ -n "$packages" ]; then
    echo "Please install: ${packages% } (names as in Debian; gdb must be version 12 or later, with Python)" >&2
    exit 1
fi

subjects_packages=''
[ "$purpose" != test ] || subjects_packages=$(missing_subjects | tr '\n' ' ')
if [ -n "$subjects_packages" ]; then
    # shellcheck disable=SC2086 # a list of words
    if can_install && ! [ -d /run/systemd/system ] && install $subjects_packages; then
        subjects_packages=$(missing_subjects | tr '\n' ' ')
    fi
    [ -z "$subjects_packages" ] || echo "Not installed, so the tests that record them are left out: ${subjects_packages% }"
fi

if ! have cargo; then
    echo "Please install Rust with rustup: https://rustup.rs" >&2
    exit 1
fi
# rustup does not always install by itself what rust-toolchain.toml asks for.
if have rustup; then
    channel=$(sed -n 's/^channel = "\(.*\)"/\1/p' rust-toolchain.toml)
    targets=$(sed -n '/^targets/s/[^"]*"\([^"]*\)"[^"]*/\1 /gp' rust-toolchain.toml)
    components=$(sed -n '/^components/s/[^"]*"\([^"]*\)"[^"]*/\1 /gp' rust-toolchain.toml)
    rustup run "$channel" rustc --version >/dev/null 2>&1 || rustup toolchain install "$channel" --profile minimal || exit 1
    installed=$(rustup target list --installed --toolchain "$channel")
    for target in $targets; do
        echo "$installed" | grep -qx "$target" || rustup target add --toolchain "$channel" "$target" || exit 1
    done
    installed=$(rustup component list --installed --toolchain "$channel")
    for component in $components; do
        echo "$installed" | grep -q "^$component" || rustup component add --toolchain "$channel" "$component" || exit 1
    done
elif ! [ -d "$(rustc --print sysroot)/lib/rustlib/x86_64-unknown-none" ]; then
    echo "Please install Rust's target x86_64-unknown-none, for instance with rustup: https://rustup.rs" >&2
    exit 1
fi
