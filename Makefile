# Everything from a fresh machine: `make demo` and `make test` install what is
# missing (as root, or through sudo), build, and run.

PREFIX ?= /usr/local
CARGO ?= cargo
export PATH := $(or $(CARGO_HOME),$(HOME)/.cargo)/bin:$(PATH)

TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
RUST_MIN := 1.88
BUILD_PACKAGES := gcc libc6-dev make
BENCH_PACKAGES := curl gzip python3 sqlite3 util-linux redis-server redis-tools nginx apache2-bin wrk postgresql
TEST_PACKAGES := $(BENCH_PACKAGES) g++ git perl vim openssl busybox-static bsdutils gawk tar \
	findutils diffutils sed dash apache2-utils memcached stress-ng zstd xz-utils pigz \
	luajit ffmpeg nodejs/node default-jdk-headless/javac golang-go/go

.PHONY: build test demo bench install setup setup-test setup-bench clean

build: setup
	$(CARGO) build --release

# The closing line adds up what all test programs of the workspace said.
test: setup-test
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --release -- -D warnings
	$(CARGO) build --release
	tests/run-all tests/run-everything $(CARGO)

demo: setup
	$(CARGO) build --release -p retrovane
	demo/run.sh $(TARGET_DIR)/release/retrovane

bench: build setup-bench
	$(TARGET_DIR)/release/bench --json bench.json $(BENCH_FLAGS)

install: build
	install -D -m 755 $(TARGET_DIR)/release/retrovane $(DESTDIR)$(PREFIX)/bin/retrovane

setup:
	@tests/install-missing --rust $(RUST_MIN) $(BUILD_PACKAGES)

setup-test:
	@PATH=$$PATH:/usr/local/go/bin tests/install-missing --rust $(RUST_MIN) $(BUILD_PACKAGES) $(TEST_PACKAGES)

setup-bench:
	@tests/install-missing --rust $(RUST_MIN) $(BUILD_PACKAGES) $(BENCH_PACKAGES)

clean:
	$(CARGO) clean
