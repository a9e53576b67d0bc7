# SPDX-License-Identifier: GPL-2.0
#
# stackbeat: a sampling profiler for Linux. `make help` lists the targets.

VERSION := $(shell cat VERSION)

B ?= build
CC ?= gcc
PREFIX ?= /usr/local
KVERSION ?= $(shell uname -r)

PACKAGES := libnl-genl-3.0 libkmod libprotobuf-c libelf zlib
WARNINGS := -Wall -Wextra -Werror -Wmissing-prototypes -Wstrict-prototypes -Wvla
CFLAGS ?= -O2 -g
CPPFLAGS += -D_GNU_SOURCE -DSTACKBEAT_VERSION='"$(VERSION)"' -Iinclude -I$(B)/proto
LIBS = $(shell pkg-config --libs $(PACKAGES))
LIB_CFLAGS = $(shell pkg-config --cflags $(PACKAGES))

# The sanitizers run on every unit test: they are the point of most of them.
SANITIZE := -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer

USER_SOURCES := $(wildcard user/*.c)
USER_OBJECTS := $(USER_SOURCES:user/%.c=$(B)/user/%.o)
PROTO := $(B)/proto/profile.pb-c
UNIT_TESTS := $(patsubst tests/unit/%.c,$(B)/unit/%,$(wildcard tests/unit/test_*.c))
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

.PHONY: unit
unit: $(UNIT_TESTS)
	@for test in $(UNIT_TESTS); do $$test || exit 1; done

.PHONY: clean
clean: ## Remove what was built, but not what was downloaded
	rm -rf $(B)/user $(B)/unit $(B)/proto $(B)/stackbeat $(B)/kmod

-include $(wildcard $(B)/user/*.d $(B)/unit/user/*.d $(B)/unit/*.d)
