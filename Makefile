# SPDX-License-Identifier: GPL-2.0
#
# stackbeat: a sampling profiler for Linux. `make help` lists the targets.

VERSION := $(shell cat VERSION)

B ?= build
ifeq ($(origin CC),default)
CC := gcc
endif
PREFIX ?= /usr/local
# The kernel of `module` and `install`.
KVERSION ?= $(shell uname -r)
KDIR ?= /lib/modules/$(KVERSION)/build

PACKAGES := json-c libarchive libnl-genl-3.0 libkmod libprotobuf-c libdw libelf liblzma libseccomp zlib
WARNINGS := -Wall -Wextra -Werror -Wmissing-prototypes -Wstrict-prototypes -Wvla
CFLAGS ?= -O2 -g
CPPFLAGS += -D_GNU_SOURCE -DSTACKBEAT_VERSION='"$(VERSION)"' -Iinclude -iquote user -I$(B)/proto
# libiberty has no pkg-config file. libarchive is loaded on demand (user/symbolize/libarchive.h).
LIBS = $(shell pkg-config --libs $(filter-out libarchive,$(PACKAGES))) -liberty -lm
LIB_CFLAGS = $(shell pkg-config --cflags $(PACKAGES))

# For unit tests and fuzzers: lib/invariant.h.
CHECKS := -DCHECK_INVARIANTS
# Most unit tests depend on the sanitizers to detect errors.
SANITIZE := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer

# The unit tests are many programs: a linker that takes a quarter of the time, if there is one, and of the debug
# information only the functions and lines, which the reports of the sanitizers show. UBSan doubles the time to compile: it is
# for the code under test, user/, and the tests that include C files of kmod/.
UNIT_DEBUG := -g1
comma := ,
TEST_SANITIZE = $(subst $(comma)undefined,,$(SANITIZE))
$(B)/unit/kmod/%: TEST_SANITIZE = $(SANITIZE)
UNIT_LDFLAGS := $(if $(shell command -v ld.gold),-fuse-ld=gold)

# Unit tests count the basic blocks that the reader executes (tests/unit/steps.h).
COUNT_STEPS := -fsanitize-coverage=trace-pc

USER_SOURCES := $(wildcard user/*/*.c)
USER_OBJECTS := $(USER_SOURCES:user/%.c=$(B)/user/%.o)
FORMATTED = $(wildcard user/*/*.[ch] tests/unit/*.[ch] tests/unit/*/*.[ch] tests/unit/shim/*/*.h tests/env/*.c tests/env/workloads/*.[ch] tests/interop/gosym/*.c tests/interop/names/*.c tests/fuzz/*.[ch] tests/fuzz/*/*.[ch] \
	tests/bench/*.c tests/bench/*/*.[ch])
# Generated from user/*/NAME.proto.
PROTO := $(B)/proto/profile.pb-c $(B)/proto/otlp.pb-c $(B)/proto/perfetto.pb-c
PROTO_HEADERS := $(PROTO:=.h)
PROTO_OBJECTS := $(PROTO:=.o)
UNIT_TESTS := $(patsubst tests/unit/%.c,$(B)/unit/%,$(wildcard tests/unit/*/test_*.c))
UNIT_CPPFLAGS := -iquote tests/unit -Itests/unit/shim
UNIT_OBJECTS := $(patsubst user/%.c,$(B)/unit/user/%.o,$(filter-out user/cli/main.c,$(USER_SOURCES)))

# V=1 shows the commands.
ifneq ($(V),1)
Q := @
say = @echo "  $(1)	$(2)"
endif

.PHONY: all
all: $(B)/stackbeat ## Build the command (build/stackbeat)

$(B)/stackbeat: $(USER_OBJECTS) $(PROTO_OBJECTS)
	$(call say,LD,$@)
	$(Q)$(CC) -Wl,--build-id $(LDFLAGS) -o $@ $^ $(LIBS)

define proto_rule
$(B)/proto/$(1).pb-c.c $(B)/proto/$(1).pb-c.h &: user/$(2)/$(1).proto
	$$(call say,PROTOC,$$<)
	@mkdir -p $$(@D)
	$$(Q)protoc-c --proto_path=$$(<D) --c_out=$$(@D) $$(<F)
endef
$(eval $(call proto_rule,profile,pprof))
$(eval $(call proto_rule,otlp,push))
$(eval $(call proto_rule,perfetto,report))

# Generated code is compiled without WARNINGS.
$(PROTO_OBJECTS): %.o: %.c
	$(call say,CC,$@)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(LIB_CFLAGS) -c -o $@ $<

$(B)/user/%.o: user/%.c VERSION | $(PROTO_HEADERS)
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(WARNINGS) $(LIB_CFLAGS) -MMD -MP -c -o $@ $<

$(B)/unit/user/%.o: user/%.c VERSION | $(PROTO_HEADERS)
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(CHECKS) -O1 $(UNIT_DEBUG) $(SANITIZE) $(COUNT_STEPS) $(WARNINGS) $(LIB_CFLAGS) \
		-MMD -MP -c -o $@ $<

$(B)/unit/steps.o: tests/unit/steps.c
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(UNIT_CPPFLAGS) -O1 -g $(WARNINGS) -MMD -MP -c -o $@ $<

$(B)/unit/patience.o: tests/unit/patience.c
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(UNIT_CPPFLAGS) -O1 -g $(WARNINGS) -MMD -MP -c -o $@ $<

# Objects that embed scripts and style sheets (lib/embed.h).
$(foreach dir,$(B) $(B)/unit $(B)/fuzz,$(dir)/user/report/flamegraph.o): $(wildcard user/report/*.js user/report/*.css)
$(foreach dir,$(B) $(B)/unit $(B)/fuzz,$(dir)/user/serve/web_page.o): $(wildcard user/serve/*.html user/serve/*.js user/serve/*.css)

# An archive: a test links only the objects that it uses.
$(B)/unit/user.a: $(UNIT_OBJECTS) $(B)/unit/steps.o $(PROTO_OBJECTS)
	$(call say,AR,$@)
	@rm -f $@
	$(Q)$(AR) rcs $@ $^

$(B)/unit/%: tests/unit/%.c $(B)/unit/user.a $(B)/unit/patience.o
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(UNIT_CPPFLAGS) -O1 $(UNIT_DEBUG) $(TEST_SANITIZE) $(WARNINGS) $(LIB_CFLAGS) \
		-MMD -MP -MF $@.d -MT $@ -c -o $@.o $<
	$(Q)$(CC) $(SANITIZE) $(UNIT_LDFLAGS) -o $@ $@.o $(B)/unit/patience.o $(B)/unit/user.a $(LIBS) -lcmocka

# Without sanitizers: the program looks up millions of addresses.
$(B)/gosym/dump: tests/interop/gosym/dump.c $(B)/user/runtime/go_pclntab.o $(B)/user/lib/error.o $(B)/user/lib/utf8.o
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(UNIT_CPPFLAGS) $(CFLAGS) $(WARNINGS) $(LIB_CFLAGS) -o $@ $^ $(LIBS)

# For tests/interop/names (correctness) and tests/bench/symbols (speed).
$(B)/names/name_addresses: tests/interop/names/name_addresses.c $(filter-out $(B)/user/cli/main.o,$(USER_OBJECTS)) $(PROTO_OBJECTS)
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(UNIT_CPPFLAGS) $(CFLAGS) $(WARNINGS) $(LIB_CFLAGS) -o $@ $^ $(LIBS)

# For tests/interop/web. Its profiles have its build ID.
$(B)/web/serve_store: tests/interop/web/serve_store.c $(filter-out $(B)/user/cli/main.o,$(USER_OBJECTS)) $(PROTO_OBJECTS)
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(UNIT_CPPFLAGS) $(CFLAGS) $(WARNINGS) $(LIB_CFLAGS) -Wl,--build-id=0x5365727665 -o $@ $^ $(LIBS)

# For tests/bench/reader.
$(B)/bench/read_samples: tests/bench/read_samples.c $(filter-out $(B)/user/cli/main.o,$(USER_OBJECTS)) $(PROTO_OBJECTS)
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(UNIT_CPPFLAGS) $(CFLAGS) $(WARNINGS) $(LIB_CFLAGS) -o $@ $^ $(LIBS)

.SECONDARY:

.PHONY: unit
unit: $(UNIT_TESTS) ## Build and run the unit tests
	$(Q)tests/check unit

.PHONY: unit-tests
unit-tests: $(UNIT_TESTS)

# A separate build with clang, which provides libFuzzer.
FUZZ_SANITIZE := $(SANITIZE) -fsanitize=fuzzer-no-link
FUZZ_TARGETS := $(patsubst tests/fuzz/%.c,$(B)/fuzz/%,$(wildcard tests/fuzz/fuzz_*.c))
FUZZ_OBJECTS := $(patsubst user/%.c,$(B)/fuzz/user/%.o,$(filter-out user/cli/main.c,$(USER_SOURCES)))

$(B)/fuzz/user/%.o: user/%.c VERSION | $(PROTO_HEADERS)
	$(call say,CLANG,$@)
	@mkdir -p $(@D)
	$(Q)clang $(CPPFLAGS) $(CHECKS) -O1 -g $(FUZZ_SANITIZE) $(WARNINGS) $(LIB_CFLAGS) -MMD -MP -c -o $@ $<

$(B)/fuzz/user.a: $(FUZZ_OBJECTS) $(PROTO_OBJECTS)
	$(call say,AR,$@)
	@rm -f $@
	$(Q)$(AR) rcs $@ $^

$(B)/fuzz/%: tests/fuzz/%.c $(B)/fuzz/user.a
	$(call say,CLANG,$@)
	$(Q)clang $(CPPFLAGS) $(UNIT_CPPFLAGS) -O1 -g $(SANITIZE) -fsanitize=fuzzer $(WARNINGS) \
		$(LIB_CFLAGS) -MMD -MP -MF $@.d -o $@ $< $(B)/fuzz/user.a $(LIBS)

.PHONY: fuzz-targets
fuzz-targets: $(FUZZ_TARGETS)

# The same targets without libFuzzer, for the inputs of the repository: linked with the objects of the unit tests.
SEED_PROGRAMS := $(patsubst tests/fuzz/fuzz_%.c,$(B)/seeds/%,$(wildcard tests/fuzz/fuzz_*.c))

$(B)/seeds/%: tests/fuzz/fuzz_%.c tests/fuzz/run_inputs.c $(B)/unit/user.a
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(UNIT_CPPFLAGS) -O1 $(UNIT_DEBUG) $(SANITIZE) $(WARNINGS) $(LIB_CFLAGS) $(UNIT_LDFLAGS) \
		-o $@ $(filter %.c,$^) $(B)/unit/user.a $(LIBS)

.PHONY: seed-programs
seed-programs: $(SEED_PROGRAMS)

# Seconds for each fuzz target, and for the guest.
T ?= 60
GUEST_T ?= $(T)

.PHONY: fuzz
fuzz: fuzz-parsers fuzz-module ## Fuzz the parsers (T seconds each: 60) and the module (GUEST_T: T)

.PHONY: fuzz-parsers
fuzz-parsers: $(FUZZ_TARGETS) ## Fuzz the parsers for T seconds each (60), on this machine
	$(Q)tests/fuzz/run $(T)

.PHONY: fuzz-module
fuzz-module: ## Fuzz the module for GUEST_T seconds (60), in a guest with a debug kernel
	$(Q)tests/fuzz/run-guest $(GUEST_T)

.PHONY: module
module: ## Build the kernel module for KVERSION (default: the running kernel)
	$(Q)kmod/build $(KDIR) $(B)/kmod/$(KVERSION)

INSTALL_COMMAND := $(DESTDIR)$(PREFIX)/bin/stackbeat
# The pages that man/generate writes.
COMMANDS := $(shell sed -n 's/^\t{"\([a-z]*\)", cmd_.*/\1/p' user/cli/main.c)
MAN_PAGES := stackbeat.1 $(COMMANDS:%=stackbeat-%.1)
INSTALL_MAN := $(DESTDIR)$(PREFIX)/share/man/man1
# Below PREFIX. Debian's zsh looks for completions of packages in share/zsh/vendor-completions.
ZSH_COMPLETIONS := share/zsh/site-functions
INSTALL_COMPLETIONS := $(DESTDIR)$(PREFIX)/share/bash-completion/completions/stackbeat \
	$(DESTDIR)$(PREFIX)/$(ZSH_COMPLETIONS)/_stackbeat $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/stackbeat.fish
INSTALL_HEADER := $(DESTDIR)$(PREFIX)/include/stackbeat.h
INSTALL_MODULE := $(DESTDIR)/lib/modules/$(KVERSION)/extra/stackbeat.ko
MODULE := $(B)/kmod/$(KVERSION)/stackbeat.ko

# Debug information of a module is read again whenever another address of it is to be symbolized.
STRIP := strip --strip-debug
# Its signature covers the whole file.
IS_SIGNED := grep -aq '~Module signature appended~'

# A staged installation (DESTDIR) runs depmod on the target machine.
ifeq ($(DESTDIR),)
DEPMOD := depmod -a $(KVERSION)
else
DEPMOD := :
endif

$(B)/man/stackbeat.1: $(B)/stackbeat man/stackbeat.1 man/generate
	$(call say,MAN,$(@D))
	$(Q)rm -rf $(@D)
	$(Q)man/generate $< $(@D)

COMPLETIONS := $(B)/completions/stackbeat $(B)/completions/_stackbeat $(B)/completions/stackbeat.fish
$(COMPLETIONS) &: $(B)/stackbeat $(wildcard completions/*)
	$(call say,COMPLETION,$(B)/completions)
	$(Q)completions/generate $< $(B)/completions

.PHONY: completions
completions: $(COMPLETIONS) ## Write the completions of bash, zsh and fish (build/completions/)

.PHONY: man
man: $(B)/man/stackbeat.1 ## Write the man pages, one for each subcommand (build/man/)

.PHONY: install
install: $(B)/stackbeat $(B)/man/stackbeat.1 $(COMPLETIONS) ## Install below PREFIX (/usr/local), including the module if it is built
ifneq ($(MODULE_INSTALL),)
	@test -e $(MODULE) || { echo "$(MODULE) does not exist: 'make module' builds it" >&2; exit 1; }
endif
	$(call say,INSTALL,$(INSTALL_COMMAND))
	$(Q)install -D -m 755 $(B)/stackbeat $(INSTALL_COMMAND)
	$(call say,INSTALL,$(INSTALL_HEADER))
	$(Q)install -D -m 644 include/stackbeat.h $(INSTALL_HEADER)
	$(Q)for target in $(INSTALL_COMPLETIONS); do \
		echo "  INSTALL	$$target"; \
		install -D -m 644 $(B)/completions/$${target##*/} $$target || exit; \
	done
	$(call say,INSTALL,$(INSTALL_MAN)/stackbeat*.1.gz)
	$(Q)install -d $(INSTALL_MAN)
	$(Q)for page in $(MAN_PAGES); do \
		gzip -9 -n <$(B)/man/$$page >$(INSTALL_MAN)/$$page.gz && chmod 644 $(INSTALL_MAN)/$$page.gz || exit; \
	done
	$(Q)if [ -e $(MODULE) ]; then \
		echo "  INSTALL	$(INSTALL_MODULE)"; \
		install -D -m 644 $(MODULE) $(INSTALL_MODULE) && \
		{ $(IS_SIGNED) $(INSTALL_MODULE) || $(STRIP) $(INSTALL_MODULE); } && $(DEPMOD); \
	else \
		echo "There is no module for kernel $(KVERSION) to install, so record will use perf events, and serve will not run;"; \
		echo "'make module install' builds and installs it (needs linux-headers-$(KVERSION))."; \
	fi

.PHONY: uninstall
uninstall: ## Remove the files of install; takes the same variables
	$(Q)rm -f $(INSTALL_COMMAND) $(INSTALL_HEADER) $(INSTALL_COMPLETIONS) $(MAN_PAGES:%=$(INSTALL_MAN)/%.gz)
	$(Q)if [ -e $(INSTALL_MODULE) ]; then rm -f $(INSTALL_MODULE) && $(DEPMOD); fi

DIST := $(B)/dist/stackbeat-$(VERSION).tar.gz

# Commands built for the previous and the next version of the interface, not the module's.
ABI := $(shell sed -n 's/^\#define STACKBEAT_ABI //p' include/stackbeat.h)
OTHER_ABIS := $(shell echo $$(($(ABI) - 1)) $$(($(ABI) + 1)))

$(B)/abi-%/stackbeat.h: include/stackbeat.h
	@mkdir -p $(@D)
	$(Q)sed 's/^\(#define STACKBEAT_ABI\) .*/\1 $*/' $< >$@

$(B)/abi-%/module_device.o: user/source/module_device.c $(B)/abi-%/stackbeat.h
	$(call say,CC,$@)
	$(Q)$(CC) -I$(@D) $(CPPFLAGS) $(CFLAGS) $(WARNINGS) -c -o $@ $<

$(B)/workloads/stackbeat-abi-%: $(B)/abi-%/module_device.o $(USER_OBJECTS) $(PROTO_OBJECTS)
	$(call say,LD,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) -o $@ $(filter-out $(B)/user/source/module_device.o,$^) $(LIBS)

$(B)/workloads/fuzz-guest: $(wildcard tests/fuzz/guest/*.[ch]) include/stackbeat.h include/stackbeat_unwind.h
	$(call say,CC,$@)
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(WARNINGS) -o $@ $(filter %.c,$^) -pthread

.PHONY: workloads
workloads: $(OTHER_ABIS:%=$(B)/workloads/stackbeat-abi-%) $(B)/workloads/fuzz-guest
	$(Q)$(MAKE) -s -C tests/env/workloads B=$(abspath $(B))
	$(Q)$(MAKE) -s -C tests/bench/programs B=$(abspath $(B))

# Programs that only longer tests and the benchmark run.
.PHONY: test-programs
test-programs:
	$(Q)tests/programs

.PHONY: demo
demo: ## Profile a real program and draw its flame graph (build/demo/); SOURCE=module: by the module, if need be in a guest
	$(Q)SOURCE=$(SOURCE) demo/run

# P selects programs by the beginning of their names.
.PHONY: accuracy
accuracy: ## Compare user stacks with the stacks of elfutils and perf, in many programs (build/accuracy/report.md)
	$(Q)tests/accuracy/run $(P)

# S selects sections or their parts (tests/bench/run --list).
.PHONY: bench
bench: ## Measure the overhead beside perf's and bpftrace's (build/bench/); S=1: section 1 only
	$(Q)tests/bench/run $(S)

.PHONY: bench-symbols
bench-symbols: ## Measure symbolization beside addr2line, llvm-symbolizer and perf script (build/bench/)
	$(Q)scripts/deps build vm bench
	$(Q)tests/bench/symbols

.PHONY: check
check: ## Run the tests of the tier `check` (tests/README.md): a quarter of an hour on two cores
	$(Q)tests/check

.PHONY: check-long
check-long: ## Run the other tests of these areas, static analyzers, and guests with other kernels and set-ups
	$(Q)tests/check --tier long

.PHONY: check-all
check-all: ## Run all tests, also check-debug, check-servers, check-matrix, fuzz, accuracy, longrun and mutants: a day
	$(Q)tests/check --tier all

# N, SUITES: how often, and which suites (default: the suites of check).
N ?= 5

.PHONY: flaky
flaky: ## Run the tests N times (5) beside two busy processes for each CPU, and count failures by test
	$(Q)tests/flaky -n $(N) $(SUITES)

.PHONY: check-matrix
check-matrix: ## Run the integration tests on every kernel; resumes an interrupted run
	$(Q)tests/matrix

.PHONY: check-servers
check-servers: ## Build Parca, Pyroscope, promtool and a Collector with Go (GBs of downloads), and test serve and push with them
	$(Q)tests/check servers

.PHONY: check-viewers
check-viewers: ## Install speedscope with npm and Perfetto's messages with pip, and open what export writes in them
	$(Q)tests/check viewers

.PHONY: check-debug
check-debug: ## Run integration tests, planted bugs and stress on debug kernels (built once)
	$(Q)tests/check planted debug stress races

.PHONY: coverage
coverage: ## Report lines reached by unit tests (reader) and integration tests (module)
	$(Q)tests/coverage

# SEED, MUTANTS and ROOMS: see the head of the script.
.PHONY: mutants
mutants: ## Change single tokens of user/, and count the changes that unit tests notice
	$(Q)tests/mutants $(ROOMS)

HOURS ?= 2

.PHONY: longrun
longrun: ## Record a guest under load for HOURS (2), and plot memory use (build/longrun/)
	$(Q)tests/stress/longrun/run $(HOURS)

.PHONY: lint
lint: ## Run static checks on the sources, with the analyzers of check-long
	$(Q)tests/lint
	$(Q)tests/lint analyzers

.PHONY: dist
dist: ## Write the sources as an archive (build/dist/)
	$(call say,DIST,$(DIST))
	$(Q)scripts/dist $(DIST)

.PHONY: deb
deb: dist ## Build Debian packages of the command, the module (DKMS) and the service (build/deb/)
	$(Q)scripts/deps build deb
	$(call say,DEB,$(B)/deb)
	$(Q)scripts/deb $(DIST) $(B)/deb

.PHONY: check-packages
check-packages: ## Build the packages twice, and install, upgrade and purge them in chroots of Debian; build the image
	$(Q)tests/check packages

.PHONY: deps
deps: ## Install the packages that `make` needs, with apt
	$(Q)scripts/deps build

.PHONY: deps-dev
deps-dev: ## Install the packages for building and testing, with apt
	$(Q)scripts/deps build vm debug test coverage demo bench deb packages

.PHONY: format
format: ## Format the reader and the tests with clang-format
	$(Q)clang-format -i $(FORMATTED)

.PHONY: help
help: ## List the targets
	@sed -n 's/^\([a-z][a-z-]*\):.*## /\1\t/p' $(firstword $(MAKEFILE_LIST)) | expand -t 14
	@echo
	@echo 'Variables: V=1 (show commands), T and GUEST_T (seconds of fuzz), HOURS, N and SUITES (flaky), SEED, MUTANTS, ROOMS, B (build directory), CC, CFLAGS, PREFIX,'
	@echo 'DESTDIR, KVERSION (kernel to build or install the module for), KDIR (its build directory), MODULE_INSTALL=1'
	@echo '(install fails if the module is not built).'

# For scripts: prints the words of a variable, one per line.
print-%:
	@printf '%s\n' $($*)

.PHONY: clean
clean: ## Remove build results, except downloads and debug kernels (build/vm)
	$(Q)rm -rf $(B)/user $(B)/unit $(B)/proto $(B)/stackbeat $(B)/kmod $(B)/man $(B)/completions $(B)/workloads $(B)/abi-* $(B)/demo \
		$(B)/lint $(B)/gosym $(B)/names $(B)/fuzz $(B)/seeds $(B)/pycache $(B)/coverage $(B)/longrun $(B)/check $(B)/bench $(B)/accuracy \
		$(B)/matrix $(B)/mutants $(B)/flaky $(B)/programs $(B)/browser $(B)/web $(B)/servers $(B)/viewers \
		$(B)/dist $(B)/deb $(B)/packages

-include $(wildcard $(B)/user/*/*.d $(B)/unit/user/*/*.d $(B)/unit/*/*.d $(B)/unit/*.d $(B)/fuzz/user/*/*.d $(B)/fuzz/*.d)
