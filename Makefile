# SPDX-License-Identifier: GPL-2.0
# The only front door.  A target's help stands behind its `##`; the work is done in scripts/.

# Which base: a folder of kernel/ and one of rdma-core-provider/.  DEBUG=1: the debug kernel.
BASE          ?= v6.1
RDMA_CORE     ?= v56
DEBUG         ?=
# A tarball or a tree to use in place of Debian's.
LINUX_SRC     ?=
RDMA_CORE_SRC ?=
# What the tests need to know.
export BASE DEBUG

include $(or $(wildcard kernel/$(BASE)/base.mk), \
	$(error BASE=$(BASE) is not there; choose one of: $(notdir $(wildcard kernel/v*))))
include $(or $(wildcard rdma-core-provider/$(RDMA_CORE)/base.mk), \
	$(error RDMA_CORE=$(RDMA_CORE) is not there; choose one of: $(notdir $(wildcard rdma-core-provider/v*))))

# Paths from here; one kernel tree serves both builds.
KERNEL_SERIES := kernel/$(BASE)
KERNEL_TREE   := build/$(BASE)/src
KERNEL_OUT    := build/$(BASE)$(if $(filter 1,$(DEBUG)),-debug)
KERNEL_CONFIG := kernel/config/kernel.config $(if $(filter 1,$(DEBUG)),kernel/config/debug.config)
RDMA_SERIES   := rdma-core-provider/$(RDMA_CORE)
RDMA_OUT      := build/rdma-core
RDMA_TREE     := $(RDMA_OUT)/src

# What `fetch` and the trees start from: a path given by the user, or the archive's file.
fetch_linux     = scripts/fetch linux-$(BASE) $(LINUX_TYPE) '$(LINUX_SUITES)' $(LINUX_PACKAGE) '$(LINUX_FILE)'
fetch_rdma_core = scripts/fetch rdma-core-$(RDMA_CORE) $(RDMA_CORE_TYPE) '$(RDMA_CORE_SUITES)' \
			$(RDMA_CORE_PACKAGE) '$(RDMA_CORE_FILE)'

.PHONY: help
help:
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo "BASE=$(BASE)  RDMA_CORE=$(RDMA_CORE)  DEBUG=1: the debug kernel  JOBS=N  LINUX_SRC=, RDMA_CORE_SRC=: own sources"

.PHONY: deps
deps: ## install the Debian packages needed (the only step for root)
	@scripts/deps

.PHONY: fetch
fetch: ## have the sources in the cache, checksums verified
	@scripts/deps check sources
	@$(if $(LINUX_SRC),:,$(fetch_linux))
	@$(if $(RDMA_CORE_SRC),:,$(fetch_rdma_core))

# The trees.  Made once; then only `scripts/series apply` changes them, and never against their owner.
$(KERNEL_TREE)/.git:
	@scripts/deps check sources
	@source=$(if $(LINUX_SRC),'$(LINUX_SRC)',$$($(fetch_linux))) && \
		scripts/series init $(KERNEL_TREE) $(KERNEL_SERIES) "$$source" $(LINUX_HAS) $(LINUX_MIB)

$(RDMA_TREE)/.git:
	@scripts/deps check sources
	@source=$(if $(RDMA_CORE_SRC),'$(RDMA_CORE_SRC)',$$($(fetch_rdma_core))) && \
		scripts/series init $(RDMA_TREE) $(RDMA_SERIES) "$$source" $(RDMA_CORE_HAS) $(RDMA_CORE_MIB)

.PHONY: kernel
kernel: $(KERNEL_TREE)/.git ## build/BASE: the tree with the series, bzImage, vmlinux, .config
	@scripts/series apply $(KERNEL_TREE) $(KERNEL_SERIES) '$(LINUX_SRC)'
	@scripts/build-kernel $(KERNEL_TREE) $(KERNEL_OUT) $(KERNEL_CONFIG)

.PHONY: rdma-core
rdma-core: $(RDMA_TREE)/.git ## build/rdma-core: rdma-core with its series and pyverbs, built in place
	@scripts/series apply $(RDMA_TREE) $(RDMA_SERIES) '$(RDMA_CORE_SRC)'
	@scripts/build-rdma-core $(RDMA_OUT)

.PHONY: selftests
selftests: $(KERNEL_TREE)/.git rdma-core ## build/selftests: the test programs
	@$(MAKE) --no-print-directory -C selftests OUTPUT=$(CURDIR)/build/selftests \
		RDMA_CORE=$(CURDIR)/$(RDMA_OUT) KSELFTEST=$(CURDIR)/$(KERNEL_TREE)/tools/testing/selftests

.PHONY: demo test smoke
demo: kernel rdma-core selftests ## the whole at work: durable remote append, power-off, check
	@selftests/demo.sh
test: kernel rdma-core selftests ## all tests
	@selftests/run-tests
smoke: kernel rdma-core selftests ## the fastest honest subset of the tests
	@selftests/run-tests --smoke

.PHONY: kunit
kunit: kernel ## the KUnit tests of rdma_rxe
	@selftests/run-tests kunit

.PHONY: mutants
mutants: kernel selftests ## break the kernel in many ways and see that the wire tests notice
	@selftests/mutants.sh

.PHONY: export
export: ## write the commits of the trees back as the patches of the series
	@for pair in $(KERNEL_TREE):$(KERNEL_SERIES) $(RDMA_TREE):$(RDMA_SERIES); do \
		[ ! -e "$${pair%:*}/.git" ] || scripts/series export "$${pair%:*}" "$${pair#*:}" || exit; \
	done

.PHONY: clean
clean: ## remove what was built; the trees, which may hold your work, and the cache stay
	@[ ! -d build ] || find build -mindepth 2 -maxdepth 2 ! -name src -exec rm -rf {} +
	@[ ! -d build ] || find build -mindepth 1 -maxdepth 1 '(' -empty -o ! -type d ')' -delete
