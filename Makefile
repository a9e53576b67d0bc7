# SPDX-License-Identifier: GPL-2.0
#
# stackbeat: a sampling profiler for Linux. `make help` lists the targets.

VERSION := $(shell cat VERSION)

B ?= build
ifeq ($(origin CC),default)
CC := gcc
endif
PREFIX ?= /usr/local
# The kernel for which `module` and `install` work.
KVERSION ?= $(shell uname -r)
KDIR ?= /lib/modules/$(KVERSION)/build

PACKAGES := libnl-genl-3.0 libkmod libprotobuf-c libelf zlib
WARNINGS := -Wall -Wextra -Werror -Wmissing-prototypes -Wstrict-prototypes -Wvla
CFLAGS ?= -O2 -g
CPPFLAGS += -D_GNU_SOURCE -DSTACKBEAT_VERSION='"$(VERSION)"' -Iinclude -I$(B)/proto
# libiberty has no pkg-config file.
LIBS = $(shell pkg-config --libs $(PACKAGES)) -liberty -lm
LIB_CFLAGS = $(shell pkg-config --cflags $(PACKAGES))

# The sanitizers run on every unit test: they are the point of most of them.
SANITIZE := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer

USER_SOURCES := $(wildcard user/*.c)
USER_OBJECTS := $(USER_SOURCES:user/%.c=$(B)/user/%.o)
PROTO := $(B)/proto/profile.pb-c
UNIT_TESTS := $(patsubst tests/unit/%.c,$(B)/unit/%,$(wildcard tests/unit/test_*.c))
UNIT_SCRIPTS := $(wildcard tests/unit/*.sh)
UNIT_OBJECTS := $(patsubst user/%.c,$(B)/unit/user/%.o,$(filter-out user/main.c,$(USER_SOURCES)))

.PHONY: all
all: $(B)/stackbeat ## Build the command (build/stackbeat)

$(B)/stackbeat: $(USER_OBJECTS) $(PROTO).o
	$(CC) $(LDFLAGS) -o $@ $^ $(LIBS)

$(PROTO).c $(PROTO).h &: user/profile.proto
	@mkdir -p $(@D)
	protoc-c --proto_path=user --c_out=$(B)/proto profile.proto

# Generated code is not held to our warnings.
$(PROTO).o: $(PROTO).c
	$(CC) $(CPPFLAGS) $(CFLAGS) $(LIB_CFLAGS) -c -o $@ $<

$(B)/user/%.o: user/%.c | $(PROTO).h
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) $(WARNINGS) $(LIB_CFLAGS) -MMD -MP -c -o $@ $<

$(B)/unit/user/%.o: user/%.c | $(PROTO).h
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) -O1 -g $(SANITIZE) $(WARNINGS) $(LIB_CFLAGS) -MMD -MP -c -o $@ $<

$(B)/unit/%: tests/unit/%.c $(UNIT_OBJECTS) $(PROTO).o
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) -Iuser -Itests/unit -Itests/unit/shim -O1 -g $(SANITIZE) $(WARNINGS) $(LIB_CFLAGS) -MMD -MP -MF $@.d \
		-o $@ $< $(UNIT_OBJECTS) $(PROTO).o $(LIBS) -lcmocka

# Kept, although only pattern rules name them.
.SECONDARY: $(UNIT_OBJECTS)

.PHONY: unit
unit: $(UNIT_TESTS) $(B)/stackbeat ## Run the tests that need neither root nor the module
	@for test in $(UNIT_TESTS) $(UNIT_SCRIPTS); do B=$(B) $$test || exit 1; done

.PHONY: module
module: ## Build the kernel module (build/kmod/$(KVERSION)/stackbeat.ko)
	kmod/build $(KDIR) $(B)/kmod/$(KVERSION)

INSTALL_COMMAND := $(DESTDIR)$(PREFIX)/bin/stackbeat
INSTALL_MAN := $(DESTDIR)$(PREFIX)/share/man/man1/stackbeat.1.gz
INSTALL_COMPLETION := $(DESTDIR)$(PREFIX)/share/bash-completion/completions/stackbeat
INSTALL_HEADER := $(DESTDIR)$(PREFIX)/include/stackbeat.h
INSTALL_MODULE := $(DESTDIR)/lib/modules/$(KVERSION)/extra/stackbeat.ko
MODULE := $(B)/kmod/$(KVERSION)/stackbeat.ko

# Elsewhere than in the running system, the lists of modules are made by who puts it there.
ifeq ($(DESTDIR),)
DEPMOD := depmod -a $(KVERSION)
else
DEPMOD := :
endif

.PHONY: install
install: $(B)/stackbeat ## Install below $(DESTDIR)$(PREFIX); the module too, where it is built
ifneq ($(MODULE_INSTALL),)
	@test -e $(MODULE) || { echo "$(MODULE) is not there: 'make module' builds it" >&2; exit 1; }
endif
	install -D -m 755 $(B)/stackbeat $(INSTALL_COMMAND)
	install -D -m 644 include/stackbeat.h $(INSTALL_HEADER)
	install -D -m 644 completions/stackbeat $(INSTALL_COMPLETION)
	install -d $(dir $(INSTALL_MAN))
	gzip -9 -n <man/stackbeat.1 >$(INSTALL_MAN)
	chmod 644 $(INSTALL_MAN)
	if [ -e $(MODULE) ]; then install -D -m 644 $(MODULE) $(INSTALL_MODULE) && $(DEPMOD); fi

.PHONY: uninstall
uninstall: ## Remove what `make install` with the same variables has installed
	rm -f $(INSTALL_COMMAND) $(INSTALL_HEADER) $(INSTALL_COMPLETION) $(INSTALL_MAN)
	if [ -e $(INSTALL_MODULE) ]; then rm -f $(INSTALL_MODULE) && $(DEPMOD); fi

.PHONY: help
help: ## List the targets
	@sed -n 's/^\([a-z][a-z-]*\):.*## /\1\t/p' $(firstword $(MAKEFILE_LIST)) | expand -t 12
	@echo
	@echo 'Variables: B (build directory), CC, CFLAGS, PREFIX (/usr/local), DESTDIR, KVERSION (the'
	@echo 'kernel to build or install the module for: default, the running one), KDIR (its build'
	@echo 'directory), MODULE_INSTALL=1 (let install fail where the module is not built).'

.PHONY: clean
clean: ## Remove what was built, but not what was downloaded
	rm -rf $(B)/user $(B)/unit $(B)/proto $(B)/stackbeat $(B)/kmod

-include $(wildcard $(B)/user/*.d $(B)/unit/user/*.d $(B)/unit/*.d)
