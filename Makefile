# Everything is done by `cargo xtask`; this file gives it the usual names.
PREFIX ?= /usr/local
XTASK = cargo xtask

all: prepare
	$(XTASK) build

install: prepare
	$(XTASK) install --prefix "$(PREFIX)"

run: prepare
	$(XTASK) run

test: prepare
	$(XTASK) test

soak: prepare
	$(XTASK) soak

bench: all
	target/prefix/bin/yamabiko bench all --against mpich

clean:
	cargo clean

prepare:
	@tools/prepare

.PHONY: all install run test soak bench clean prepare
