# Everything is done by `cargo xtask`; this file gives it the usual names.
PREFIX ?= /usr/local
XTASK = cargo xtask

all:
	$(XTASK) build

install:
	$(XTASK) install --prefix $(PREFIX)

run:
	$(XTASK) run

test:
	$(XTASK) test

soak:
	$(XTASK) soak

bench:
	$(XTASK) bench

clean:
	cargo clean

.PHONY: all install run test soak bench clean
