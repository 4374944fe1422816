# Lamella's front door. `make demo` and `make test` do all their set-up themselves on Debian 12;
# both may be run again.
SHELL := /bin/bash
JOBS := $(shell nproc)

.PHONY: help setup build demo test test-long test-asan test-tsan test-schedules test-aarch64 test-hadoop test-hadoop-long fuzz fuzz-seeds bench bench-peers bench-large bench-small bench-hadoop lint format install clean

help:
	@echo 'make demo     install what is missing, build, run the main job (DATA=file for your own input, ENGINE=tlsm for another design)'
	@echo 'make test     install what is missing, build, run every test; most again under ASan+UBSan, TSan; the Java part'
	@echo 'make test-long BUDGET=50    the release tests, exploring crashes BUDGET times as long (at most 50)'
	@echo 'make build    build/release: liblamella.a, the program lamella, lamella_bench'
	@echo 'make bench    the standing benchmark against RocksDB, LevelDB and LMDB'
	@echo 'make bench-peers    what these three do first, once: RocksDB and LevelDB as released, a quarter of an hour; PEERS=package: not'
	@echo 'make bench-large    ten million keys: until idle, straight after, a queue, fresh processes'
	@echo 'make bench-small    what stores of one record take, alone and by the hundred'
	@echo 'make test-asan, make test-tsan    one of the sanitizer builds alone'
	@echo 'make test-schedules    the concurrent tests, with threads held up at their locks'
	@echo 'make test-aarch64    builds for AArch64 (installs the cross compiler and arm64 libraries), runs the unit tests under qemu'
	@echo 'make test-hadoop, make bench-hadoop    the Java part: tests, and the measured table'
	@echo 'make test-hadoop-long    its tests, then some again with an older Hadoop; sources and javadoc jars'
	@echo 'make fuzz SECONDS=60 [TARGET=records]    search with each fuzzer (or one) for so long; make fuzz-seeds writes the seeds'
	@echo 'make lint     clang-format and clang-tidy 19; make format applies the former'
	@echo 'make install  into PREFIX (default /usr/local): library, headers, CMake package, pkg-config, program'
	@echo 'make setup    only install the Debian packages;  make clean: remove build/'

setup:
	@bash scripts/setup.sh

build: setup
	cmake --preset release
	cmake --build --preset release -j $(JOBS)

# Installs and builds what it runs, and no test. What is configured already stays as it is.
demo:
	@bash scripts/setup.sh demo
	[ -f build/release/build.ninja ] || cmake --preset release -DLAMELLA_BUILD_TESTS=OFF
	cmake --build --preset release -j $(JOBS) --target lamella_program lamella_bench
	@DATA='$(DATA)' ENGINE='$(ENGINE)' bash scripts/demo.sh

test: setup
	@bash scripts/test.sh

BUDGET ?= 50
test-long: setup
	@LAMELLA_PROOF_SCALE='$(BUDGET)' bash scripts/test.sh release

test-asan: setup
	@bash scripts/test.sh asan

test-tsan: setup
	@bash scripts/test.sh tsan

test-schedules: setup
	@bash scripts/test.sh schedules

test-aarch64:
	@bash scripts/setup.sh aarch64
	@bash scripts/test.sh aarch64

test-hadoop:
	@bash scripts/test_hadoop.sh

test-hadoop-long:
	@bash scripts/test_hadoop.sh long

bench-hadoop:
	@bash scripts/bench_hadoop.sh

# Unless PEERS=package: then what the packages have is measured, where nothing was built before.
bench-peers: setup
	@[ '$(PEERS)' = package ] || bash scripts/build_peers.sh

bench: build bench-peers
	build/release/bench/lamella_bench --standing

bench-large: build bench-peers
	build/release/bench/lamella_bench --large

bench-small: build bench-peers
	build/release/bench/lamella_bench --small

SECONDS ?= 60
fuzz:
	@bash scripts/setup.sh lint
	@bash scripts/fuzz.sh '$(SECONDS)' $(TARGET)

fuzz-seeds: setup
	cmake --preset release
	cmake --build --preset release -j $(JOBS) --target lamella_fuzz_seeds
	build/release/fuzz/lamella_fuzz_seeds fuzz/corpus

lint:
	@bash scripts/setup.sh lint
	@bash scripts/lint.sh

format:
	@bash scripts/setup.sh lint
	@bash scripts/lint.sh --fix

PREFIX ?= /usr/local
install: build
	cmake --install build/release --prefix '$(PREFIX)'

clean:
	rm -rf build
