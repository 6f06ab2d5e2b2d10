# The commands that people type first. Each is one of `cargo xtask`, which has more: see `cargo xtask --help`.

PREFIX = /usr/local
DESTDIR =
# Set it to build `shmem-inspect sql` too, which takes minutes: make install WITH_SQL=1
WITH_SQL =

.PHONY: build demo test check install uninstall deb setup setup-test

build: setup
	cargo xtask build $(if $(WITH_SQL),--with-sql)

# Finds a real bug across two processes: builds, records the example until it fails, and opens the debugger on the culprit.
demo: setup
	cargo xtask demo

# All tests; how many passed is on the last line.
test: setup-test
	cargo xtask test

check: setup
	cargo xtask check

install: build
	cargo xtask install --prefix '$(PREFIX)' --destdir '$(DESTDIR)'

uninstall:
	cargo xtask uninstall --prefix '$(PREFIX)' --destdir '$(DESTDIR)'

# A Debian package in target/debian; needs cargo-deb.
deb: setup
	cargo xtask deb $(if $(WITH_SQL),--with-sql)

# Installs what is missing, or says what to install.
setup:
	@sh xtask/setup.sh

setup-test:
	@sh xtask/setup.sh test
