# SPDX-License-Identifier: GPL-2.0
# Everything starts here.  The text after a target's `##` is its help, which `make` shows if a number of a group comes first;
# the work is done in scripts/.

# Which base: a folder of kernel/, and one of rdma-core-provider/ and of each of userspace/.  DEBUG: a debug
# kernel, 1 or kcsan.  ULPS=1: a kernel with what uses rxe in the kernel, as modules.
# KERNEL=KERNEL: what the tests boot in place of the kernel of BASE: a tree, an unpacked package or an image, as for rxe-vm.
# RDMA_CORE=host: the host's libibverbs, of rdma-core 45 or newer, which demo and examples need only.
BASE          ?= v6.1
RDMA_CORE     ?= v56
IPROUTE2      ?= v6.1
PERFTEST      ?= v25.01
WIRESHARK     ?= v4.0
LIBFABRIC     ?= v2.1.0
DEBUG         ?=
# A tarball or a tree to use in place of Debian's.
LINUX_SRC     ?=
RDMA_CORE_SRC ?=
IPROUTE2_SRC  ?=
PERFTEST_SRC  ?=
WIRESHARK_SRC ?=
LIBFABRIC_SRC ?=
# What the tests need to know.
export BASE RDMA_CORE DEBUG

ifneq ($(words $(CURDIR)),1)
$(error make cannot work in a folder whose path has a space: move this one: $(CURDIR))
endif

# known VARIABLE,WORDS: a wrong word ends here, before anything is built.
known = $(foreach word,$($1),$(if $(filter $(word),$2),,$(error $1=$($1): there is no $(word): choose from: $(strip $2))))

# base_mk FOLDER,VARIABLE,MORE: the base.mk of what VARIABLE chooses; MORE is what may be said besides
base_mk = $(or $(wildcard $1/$($2)/base.mk), \
	$(error $2=$($2): there is no $($2): choose from: $(strip $3 $(notdir $(wildcard $1/v*)))))
include $(call base_mk,kernel,BASE)
OWN_RDMA_CORE := $(filter-out host,$(RDMA_CORE))
ifneq ($(OWN_RDMA_CORE),)
include $(call base_mk,rdma-core-provider,RDMA_CORE,host)
endif
include $(call base_mk,userspace/iproute2,IPROUTE2)
include $(call base_mk,userspace/perftest,PERFTEST)
include $(call base_mk,userspace/wireshark,WIRESHARK)
include $(call base_mk,userspace/libfabric,LIBFABRIC)

$(call known,TARGETS,1 3)
$(call known,DEBUG,0 1 kcsan)
$(call known,ULPS,0 1)
# A suite may be the path of a program, too.
$(call known,SUITES,$(sort $(basename $(notdir $(wildcard selftests/suites/*.sh)))) \
	$(foreach suite,$(SUITES),$(if $(findstring /,$(suite)),$(wildcard $(suite)))))
$(call known,OTHERS,$(filter-out v6.1 v56,$(notdir $(wildcard kernel/v* rdma-core-provider/v*))))
$(call known,KERNELS,$(notdir $(wildcard kernel/v*)))
topics := $(patsubst kernel/$(BASE)/%/series,%,$(wildcard kernel/$(BASE)/*/series))
$(call known,TOPIC,$(topics))
$(call known,TOPICS,$(topics) $(filter $(topics:%=%/%),$(TOPICS)))
$(call known,TARGET_RXE,stock fixed series)
$(call known,INITIATOR_RXE,stock fixed series)
$(call known,STOCK_ICRC,legacy conforming both)
ifneq ($(MUTANTS),)
$(call known,MUTANTS,$(notdir $(wildcard selftests/mutants/*)) \
	$(filter $(shell sed -n 's/^From //p' selftests/mutants/*),$(MUTANTS)))
endif

# Paths that are given are there, and numbers are numbers.
space := $() $()
$(foreach given,LINUX_SRC RDMA_CORE_SRC IPROUTE2_SRC PERFTEST_SRC WIRESHARK_SRC LIBFABRIC_SRC STOCK_KERNEL KERNEL CONTINUE,$(if $($(given)), \
	$(if $(wildcard $(subst $(space),\ ,$($(given)))),,$(error $(given)=$($(given)): no such file or folder))))
$(foreach given,JOBS ROUNDS,$(if $($(given)),$(if $(shell test '$($(given))' -gt 0 2>/dev/null && echo yes),, \
	$(error $(given)=$($(given)): say a number from 1))))

tested_kernel := kernel
ifneq ($(KERNEL),)
override KERNEL := $(shell realpath -- '$(KERNEL)')
$(if $(shell qemu-scripts/initramfs '$(KERNEL)'),,$(error KERNEL=$(KERNEL) can't be booted))
export KERNEL
tested_kernel :=
endif

# wants TARGET,WORD: the target is of bases for which the word of scripts/bases holds.
wants = $(if $(filter $1,$(MAKECMDGOALS)),$(if $(filter $(BASE),$(shell scripts/bases $2)),, \
	$(error BASE=$(BASE) has no `make $1`: choose from: $(shell scripts/bases $2))))
$(call wants,dkms,dkms)
$(call wants,reproducers,fixes)

# Paths from here; one kernel tree serves both builds.
KERNEL_SERIES := kernel/$(BASE)
KERNEL_TREE   := build/$(BASE)/src
DEBUG_CONFIG  := $(patsubst 1,debug,$(filter-out 0,$(DEBUG)))
ULPS_CONFIG   := $(patsubst 1,ulps,$(filter-out 0,$(ULPS)))
KERNEL_OUT    := build/$(BASE)$(ULPS_CONFIG:%=-%)$(DEBUG_CONFIG:%=-%)
# What is common to all bases, and what a base has of its own.
fragments      = $(foreach c,$(1),kernel/config/$(c).config $(wildcard kernel/$(BASE)/$(c).config))
KERNEL_CONFIG := $(call fragments,guest kernel $(ULPS_CONFIG) $(DEBUG_CONFIG))
RDMA_SERIES   := rdma-core-provider/$(RDMA_CORE)
# The default series has the short name, as qemu-scripts/choices.sh has it.
RDMA_VARIANT  := $(patsubst %,-%,$(filter-out v56,$(RDMA_CORE)))
RDMA_OUT      := build/rdma-core$(RDMA_VARIANT)
RDMA_TREE     := $(RDMA_OUT)/src
STOCK_RDMA    := build/stock/rdma-core$(RDMA_VARIANT)
IP_SERIES     := userspace/iproute2/$(IPROUTE2)
IP_VARIANT    := $(patsubst %,-%,$(filter-out v6.1,$(IPROUTE2)))
IP_OUT        := build/iproute2$(IP_VARIANT)
IP_TREE       := $(IP_OUT)/src
STOCK_IP      := build/stock/iproute2$(IP_VARIANT)
PT_SERIES     := userspace/perftest/$(PERFTEST)
PT_OUT        := build/perftest
PT_TREE       := $(PT_OUT)/src
WS_SERIES     := userspace/wireshark/$(WIRESHARK)
WS_OUT        := build/wireshark
WS_TREE       := $(WS_OUT)/src
LF_SERIES     := userspace/libfabric/$(LIBFABRIC)
LF_OUT        := build/libfabric
LF_TREE       := $(LF_OUT)/src

# What `fetch` and the trees start from: a path given by the user, or the archive's file.
fetch_linux = scripts/fetch linux-$(BASE) $(LINUX_TYPE) '$(LINUX_SUITES)' $(LINUX_PACKAGE) '$(LINUX_FILE)'

.PHONY: help help-all
help:
	@awk -F ':.*##' ' \
		BEGIN { split("To see what it is,To test your programs or to fix the rxe of your Debian," \
			"To work on rxe or on this project,To check and to mail what you have changed", title, ",") } \
		/^[a-z-]+:.*##[1-4] / { text[substr($$2, 1, 1)] = text[substr($$2, 1, 1)] sprintf("  make %-12s%s\n", $$1, substr($$2, 2)) } \
		END { for (i = 1; i in title; i++) printf "%s:\n%s", title[i], text[i] }' $(firstword $(MAKEFILE_LIST))
	@echo "\`make help-all\` shows all targets, and what may be set."
help-all:
	@awk -F ':.*##[1-4]? ' '/^[a-z0-9-]+:.*##[1-4]? / { printf "  make %-13s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@echo "BASE=$(BASE)  RDMA_CORE=$(RDMA_CORE)  DEBUG=1, kcsan: debug kernels  JOBS=N  V=1: all output"
	@echo "LINUX_SRC=, RDMA_CORE_SRC=, IPROUTE2_SRC=, PERFTEST_SRC=, WIRESHARK_SRC=, LIBFABRIC_SRC=: own sources"

.PHONY: deps deps-check deps-lab deps-ulps
deps: ##1 install the Debian packages that demo and tests need (as root)
deps-check: ## install those that the checks and rdma-core's manual pages need besides (as root)
deps-lab: ## install only those of the lab (as root)
deps-ulps: ## install those of the suites ulps and programs besides (as root)
deps deps-check deps-lab deps-ulps:
	@scripts/deps install $(deps_set_of_$@)
deps_set_of_deps       := $(if $(OWN_RDMA_CORE),tests,demo)
deps_set_of_deps-check := checks
deps_set_of_deps-lab   := lab
deps_set_of_deps-ulps  := soak

# What the goals lack is named at once, before anything is fetched or built.
to_build := sources $(tested_kernel) $(if $(OWN_RDMA_CORE),rdma-core,host-library) selftests
needs_of_kernel        := sources kernel
needs_of_kunit         := sources kernel lab
needs_of_selftests     := $(filter-out kernel,$(to_build))
$(foreach goal,demo smoke bench interop mutants regressions reproducers,$(eval needs_of_$(goal) := $(to_build) lab))
needs_of_test          := $(to_build) iproute2 perftest lab
needs_of_soak          := $(needs_of_test)
needs_of_release       := $(to_build) release
needs_of_install       := $(needs_of_release)
needs_of_image         := $(needs_of_release) image
needs_of_check         := sources check
needs_of_check-fast    := $(needs_of_check)
needs_of_check-full    := $(needs_of_check) check-full
needs_of_check-samples := $(needs_of_check-full)
.PHONY: needs
needs:
	@scripts/deps check $(sort $(foreach goal,$(MAKECMDGOALS),$(needs_of_$(goal))))

.PHONY: fetch fetch-linux fetch-rdma-core fetch-iproute2 fetch-perftest fetch-wireshark fetch-libfabric
fetch: fetch-linux fetch-rdma-core fetch-iproute2 fetch-perftest ## fetch the sources into the cache, and verify their checksums
fetch-linux fetch-rdma-core fetch-iproute2 fetch-perftest fetch-wireshark fetch-libfabric:
	@scripts/deps check sources
	@$(if $($(SRC_OF_$@)),:,$($(subst -,_,$@)))
SRC_OF_fetch-linux := LINUX_SRC

# The trees.  Made once; then only `scripts/series apply` changes them, and never against their owner.
$(KERNEL_TREE)/.git:
	@scripts/deps check sources
	@source=$(if $(LINUX_SRC),'$(LINUX_SRC)',$$($(fetch_linux))) && \
		scripts/series init $(KERNEL_TREE) $(KERNEL_SERIES) "$$source" $(LINUX_HAS) $(LINUX_MIB)

# program NAME,VARIABLE,TREE,SERIES: how its source is fetched, and the trees that begin with it, to work in and to check
define program
SRC_OF_fetch-$1 := $2_SRC
fetch_$(subst -,_,$1) = scripts/fetch $1-$$($2) $$($2_TYPE) '$$($2_SUITES)' $$($2_PACKAGE) '$$($2_FILE)'

$3/.git build/check/$4/src/.git:
	@scripts/deps check sources
	@source=$$(if $$($2_SRC),'$$($2_SRC)',$$$$($$(fetch_$(subst -,_,$1)))) && \
		scripts/series init $$(@D) $4 "$$$$source" $$($2_HAS) $$($2_MIB)
endef
$(eval $(call program,rdma-core,RDMA_CORE,$(RDMA_TREE),$(RDMA_SERIES)))
$(eval $(call program,iproute2,IPROUTE2,$(IP_TREE),$(IP_SERIES)))
$(eval $(call program,perftest,PERFTEST,$(PT_TREE),$(PT_SERIES)))
$(eval $(call program,wireshark,WIRESHARK,$(WS_TREE),$(WS_SERIES)))
$(eval $(call program,libfabric,LIBFABRIC,$(LF_TREE),$(LF_SERIES)))

# What a folder holds is built by one `make` at a time; the next one finds it ready.  A base's kernels share a tree.
LOCKED := @scripts/locked

.PHONY: kernel
kernel: needs $(KERNEL_TREE)/.git ##3 build/BASE: the tree with the series, bzImage, vmlinux, .config
	$(LOCKED) build/$(BASE) scripts/series apply $(KERNEL_TREE) $(KERNEL_SERIES) '$(LINUX_SRC)'
	$(LOCKED) build/$(BASE) scripts/build-kernel $(KERNEL_TREE) $(KERNEL_OUT) $(KERNEL_CONFIG)

.PHONY: dkms
dkms: $(KERNEL_TREE)/.git ##2 build/dkms: a Debian package with the fixes of BASE, which DKMS builds for stock kernels
	@scripts/dkms-package $(KERNEL_TREE) $(KERNEL_SERIES) build/dkms $(DKMS_TESTED)

.PHONY: rdma-core
rdma-core: $(if $(OWN_RDMA_CORE),$(RDMA_TREE)/.git) ## build/rdma-core: rdma-core with its series and pyverbs, built in place
ifneq ($(OWN_RDMA_CORE),)
	$(LOCKED) $(RDMA_OUT) scripts/series apply $(RDMA_TREE) $(RDMA_SERIES) '$(RDMA_CORE_SRC)'
	$(LOCKED) $(RDMA_OUT) scripts/build-rdma-core $(RDMA_OUT)
endif

.PHONY: iproute2 stock-iproute2
iproute2: $(IP_TREE)/.git ## build/iproute2: the rdma tool with its series, which the lab's guests then use
	$(LOCKED) $(IP_OUT) scripts/series apply $(IP_TREE) $(IP_SERIES) '$(IPROUTE2_SRC)'
	$(LOCKED) $(IP_OUT) scripts/build-iproute2 $(IP_TREE) $(IP_OUT)
# The tool as it is before the series.
stock-iproute2: $(IP_TREE)/.git
	@mkdir -p $(STOCK_IP)/src
	@git -C $(IP_TREE) archive base | tar -x -C $(STOCK_IP)/src
	$(LOCKED) $(STOCK_IP) scripts/build-iproute2 $(STOCK_IP)/src $(STOCK_IP)

.PHONY: perftest
perftest: $(PT_TREE)/.git rdma-core ## build/perftest: perftest with its series, built with this rdma-core
	$(LOCKED) $(PT_OUT) scripts/series apply $(PT_TREE) $(PT_SERIES) '$(PERFTEST_SRC)'
	$(LOCKED) $(PT_OUT) scripts/build-perftest $(PT_TREE) $(PT_OUT) $(RDMA_OUT)

.PHONY: wireshark
wireshark: $(WS_TREE)/.git ## build/wireshark: the patched InfiniBand dissector, as a plugin of the tshark that is installed
	$(LOCKED) $(WS_OUT) scripts/series apply $(WS_TREE) $(WS_SERIES) '$(WIRESHARK_SRC)'
	$(LOCKED) $(WS_OUT) scripts/build-wireshark $(WS_TREE) $(WS_OUT)

.PHONY: libfabric
libfabric: $(LF_TREE)/.git rdma-core ## build/libfabric: libfabric and its tests with its series, built with this rdma-core
	$(LOCKED) $(LF_OUT) scripts/series apply $(LF_TREE) $(LF_SERIES) '$(LIBFABRIC_SRC)'
	$(LOCKED) $(LF_OUT) scripts/build-libfabric $(LF_TREE) $(LF_OUT) $(RDMA_OUT)

.PHONY: selftests
selftests: needs $(KERNEL_TREE)/.git rdma-core ##3 build/selftests: the test programs; build/crash: crash-states
	+$(make_crash_states) KSELFTEST=$(CURDIR)/$(KERNEL_TREE)/tools/testing/selftests
	+$(make_selftests) $(if $(OWN_RDMA_CORE),,examples)
make_crash_states = $(LOCKED) build/crash $(MAKE) --no-print-directory -C crash-states OUTPUT=$(CURDIR)/build/crash \
		RDMA_CORE=$(CURDIR)/$(RDMA_OUT)
make_selftests = $(LOCKED) build/selftests $(MAKE) --no-print-directory -C selftests OUTPUT=$(CURDIR)/build/selftests \
		RDMA_CORE=$(if $(OWN_RDMA_CORE),$(CURDIR)/$(RDMA_OUT),/usr) \
		KSELFTEST=$(CURDIR)/$(KERNEL_TREE)/tools/testing/selftests

# All that it needs is checked here.
.PHONY: try
try: ##1 show in seconds which FLUSH a recorded program has forgotten; needs gcc and libpcap only
	@scripts/deps check try
	$(LOCKED) build/crash $(MAKE) -s --no-print-directory -C crash-states OUTPUT=$(CURDIR)/build/crash $(CURDIR)/build/crash/crash-states
	@scripts/try build/crash/crash-states build/try

.PHONY: demo test smoke
demo: needs ##1 show a durable remote append, a power cut, and what is left (TARGETS=3: copies at three targets)
	@$(MAKE) --no-print-directory -j2 kernel demo-programs
	@selftests/examples/$(demo_$(or $(TARGETS),1))
.PHONY: demo-programs
# Of rdma-core and the programs no more than the demo runs: they are ready before the kernel is.
demo-programs: $(if $(OWN_RDMA_CORE),$(RDMA_TREE)/.git)
ifneq ($(OWN_RDMA_CORE),)
	$(LOCKED) $(RDMA_OUT) scripts/series apply $(RDMA_TREE) $(RDMA_SERIES) '$(RDMA_CORE_SRC)'
	$(LOCKED) $(RDMA_OUT) scripts/build-rdma-core --for-examples $(RDMA_OUT)
endif
	+$(make_crash_states)
	+$(make_selftests) examples
demo_1 := demo.sh
demo_3 := replicas/demo.sh
test: needs $(tested_kernel) rdma-core stock-rdma-core iproute2 stock-iproute2 perftest selftests ##3 run all tests (SUITES='A B': these; KERNEL=TREE: on yours)
	@selftests/run-tests $(SUITES)
smoke: needs $(tested_kernel) rdma-core selftests ## run a fast subset of the tests
	@selftests/run-tests --smoke

.PHONY: test-others
test-others: ## run the most telling suites on the other bases (OTHERS=v7.3: this one)
	@scripts/nightly others$(OTHERS:%=-%)

.PHONY: test-submission
test-submission: ## run all tests, and check what export and submission make of BASE
	@scripts/test-submission

.PHONY: nightly
nightly: ## run everything, with one verdict; takes hours (STEPS='A B': these)
	@scripts/nightly $(STEPS)

.PHONY: soak
soak: needs kernel rdma-core stock-rdma-core iproute2 stock-iproute2 perftest selftests ## run all tests, with their long sets
	@LONG=1 selftests/run-tests

# The same kernel without the series.
BASE_OUT := build/$(BASE)-base

.PHONY: base-kernel regressions
base-kernel: $(BASE_OUT)/src/.git ## build/BASE-base: the kernel without the series, to compare with
	$(LOCKED) $(BASE_OUT) scripts/build-kernel $(BASE_OUT)/src $(BASE_OUT) $(call fragments,guest kernel base)
regressions: kernel base-kernel rdma-core perftest selftests ## check that the series can do all that the base can, as fast
	@$(if $(DEBUG_CONFIG),$(MAKE) --no-print-directory DEBUG= kernel) # compared with the base, whatever DEBUG is
	@selftests/run-tests regressions

.PHONY: kunit
kunit: kernel ## run the KUnit tests of rdma_rxe
	@selftests/run-tests kunit

# All series are checked, or CHECKED='kernel/v6.1 ...', each in a tree of its own; do not work in these trees.
all_series := $(wildcard kernel/v* rdma-core-provider/v* userspace/*/v*)
CHECKED ?= $(all_series)
$(call known,CHECKED,$(all_series))

.PHONY: check check-fast check-full check-samples check-trees
check: ##4 check every series, patch by patch: messages, style, kernel-doc, builds without warnings
check-full: ## the same, and more: other architectures, sparse, Coccinelle, KUnit, litmus tests, rdma-core's own checks
check-samples: ## check that these rules pass good samples and catch bad ones
check-fast: ##4 check, but build nothing: a minute or two for each series
check check-fast check-full check-samples: needs check-trees
	@KERNEL_TREE=$(KERNEL_TREE) scripts/check/run $(patsubst check-%,--%,$(filter check-%,$@)) $(CHECKED)

# LINUX_SRC, RDMA_CORE_SRC and so on are the source of one base only.  The archive moves on: a series whose source cannot
# be fetched is skipped and says so; but not that of BASE, which gives the rules their tools.
check-trees: $(KERNEL_TREE)/.git
	@for series in $(CHECKED); do \
		base=$${series##*/}; \
		case $$series in \
		kernel/*) what=linux; set -- BASE=$$base $$([ $$base = $(BASE) ] || echo LINUX_SRC=) ;; \
		userspace/iproute2/*) what=iproute2; set -- IPROUTE2=$$base $$([ $$base = $(IPROUTE2) ] || echo IPROUTE2_SRC=) ;; \
		userspace/perftest/*) what=perftest; set -- PERFTEST=$$base $$([ $$base = $(PERFTEST) ] || echo PERFTEST_SRC=) ;; \
		userspace/libfabric/*) what=libfabric; set -- LIBFABRIC=$$base $$([ $$base = $(LIBFABRIC) ] || echo LIBFABRIC_SRC=) ;; \
		userspace/wireshark/*) what=wireshark; set -- WIRESHARK=$$base $$([ $$base = $(WIRESHARK) ] || echo WIRESHARK_SRC=) ;; \
		*) what=rdma-core; set -- RDMA_CORE=$$base $$([ $$base = $(RDMA_CORE) ] || echo RDMA_CORE_SRC=) ;; \
		esac; \
		mkdir -p build/check/$$series; \
		[ -e build/check/$$series/src/.git ] || \
		if $(MAKE) -s "$$@" fetch-$$what >build/check/$$series/skip 2>&1; then \
			$(MAKE) -s "$$@" build/check/$$series/src/.git || exit; \
		fi; \
	done

build/check/$(KERNEL_SERIES)/src/.git $(BASE_OUT)/src/.git: | $(KERNEL_TREE)/.git
	@bash -c '. scripts/lib.sh && need_space $(@D) 2000'
	@git -C $(KERNEL_TREE) worktree prune
	@git -C $(KERNEL_TREE) worktree add -q --detach $(CURDIR)/$(@D) base

SUBMISSIONS := build/submission
.PHONY: submission
submission: $(if $(TOPIC),submission-kernel,submission-rdma-core submission-iproute2 submission-perftest submission-wireshark submission-libfabric) ##4 build/submission: mail, and pull requests for rdma-core, perftest, Wireshark and libfabric; SIGNOFF='You <you@example.org>', then TOPIC=, VERSION=, PREVIOUS=; RUN=; RDMA_CORE_GIT=clone
.PHONY: submission-kernel submission-rdma-core submission-iproute2 submission-perftest submission-wireshark submission-libfabric
submission-kernel: $(KERNEL_TREE)/.git
	@KERNEL_TREE=$(KERNEL_TREE) scripts/submission kernel $(KERNEL_TREE) $(KERNEL_SERIES)$(TOPIC:%=/%) \
		$(SUBMISSIONS)/kernel$(TOPIC:%=-%)
# Upstream gets the newest.
NEWEST_RDMA_CORE := $(lastword $(sort $(notdir $(wildcard rdma-core-provider/v*))))
# Each is a pull request, except what only this project has.
RDMA_TOPICS = $(sort $(notdir $(patsubst %/0000-cover-letter.patch,%,$(shell grep -l '^Subject: .PATCH' \
	rdma-core-provider/$(NEWEST_RDMA_CORE)/*/0000-cover-letter.patch))))
submission-rdma-core: $(if $(filter $(RDMA_CORE),$(NEWEST_RDMA_CORE)),$(RDMA_TREE)/.git)
	@$(if $(filter $(RDMA_CORE),$(NEWEST_RDMA_CORE)),for topic in $(or $(TOPIC),$(RDMA_TOPICS)); do \
		scripts/submission rdma-core $(RDMA_TREE) $(RDMA_SERIES)/$$topic $(SUBMISSIONS)/rdma-core-$$topic || exit; done,\
		$(MAKE) --no-print-directory RDMA_CORE=$(NEWEST_RDMA_CORE) $@)
NEWEST_IPROUTE2 := $(lastword $(sort $(notdir $(wildcard userspace/iproute2/v*))))
submission-iproute2: $(if $(filter $(IPROUTE2),$(NEWEST_IPROUTE2)),$(IP_TREE)/.git)
	@$(if $(filter $(IPROUTE2),$(NEWEST_IPROUTE2)),scripts/submission iproute2 $(IP_TREE) $(IP_SERIES) $(SUBMISSIONS)/iproute2,\
		$(MAKE) --no-print-directory IPROUTE2=$(NEWEST_IPROUTE2) $@)
submission-perftest: $(PT_TREE)/.git
	@scripts/submission perftest $(PT_TREE) $(PT_SERIES) $(SUBMISSIONS)/perftest
submission-wireshark: $(WS_TREE)/.git
	@scripts/submission wireshark $(WS_TREE) $(WS_SERIES) $(SUBMISSIONS)/wireshark
submission-libfabric: $(LF_TREE)/.git
	@scripts/submission libfabric $(LF_TREE) $(LF_SERIES) $(SUBMISSIONS)/libfabric

.PHONY: bench
bench: kernel rdma-core selftests ## measure durable remote append; STOCK_KERNEL=IMAGE: another kernel, too; ROUNDS=N; CONTINUE=DIR: go on with a run that was stopped
	@selftests/bench/bench.sh $(if $(CONTINUE),--continue '$(CONTINUE)',$(STOCK_KERNEL:%=--kernel '%') $(ROUNDS:%=--rounds %))

.PHONY: mutants
mutants: kernel selftests ##3 break the kernel in many ways (MUTANTS='A B': these, or those of a driver's file), and check that the tests notice
	@selftests/run-mutants $(MUTANTS)

.PHONY: reproducers
reproducers: $(KERNEL_TREE)/.git selftests ## show the bug of each patch of BASE (TOPICS='A B': of these): cases fail before it, and pass after
	$(LOCKED) build/$(BASE) scripts/series apply $(KERNEL_TREE) $(KERNEL_SERIES) '$(LINUX_SRC)'
	@selftests/run-reproducers $(TOPICS)

.PHONY: ulps
ulps: rdma-core ## test NVMe, NFS and block devices over RDMA (TARGET_RXE=, INITIATOR_RXE=: stock, fixed by the module of `dkms`, or series; CASES='nvme nfs')
	@EXPECTED='selftests/expected$(if $(filter stock,$(INITIATOR_RXE)), selftests/suites/data/ulps.stock-initiator)' \
		selftests/run-tests ulps

.PHONY: interop stock-rdma-core
interop: kernel rdma-core stock-rdma-core selftests ## test with a stock kernel (Debian's 6.12, or STOCK_KERNEL=) and a stock rdma-core
	@selftests/run-tests interop

# rdma-core as it is before the series.
stock-rdma-core: $(RDMA_TREE)/.git
	@mkdir -p $(STOCK_RDMA)/src
	@git -C $(RDMA_TREE) archive base | tar -x -C $(STOCK_RDMA)/src
	$(LOCKED) $(STOCK_RDMA) scripts/build-rdma-core $(STOCK_RDMA)

.PHONY: docs
docs: ##4 build/docs: Documentation/ as HTML; with the API of the kernel if its tree is there
	@scripts/deps check docs
	@KERNEL_TREE=$(CURDIR)/$(KERNEL_TREE) PYTHONDONTWRITEBYTECODE=1 \
		sphinx-build -q -W --keep-going -d build/doctrees Documentation build/docs
	@echo build/docs/index.html

# What users get: scripts/install has the list.  KERNELS: which kernels; if not said, an installation has those that are
# built, a release all.
PREFIX  ?= /usr/local
install: KERNELS ?= $(sort v6.1 $(foreach base,$(notdir $(wildcard kernel/v*)),$(if $(wildcard build/$(base)/bzImage),$(base))))
release image: KERNELS ?= $(sort $(notdir $(wildcard kernel/v*)))
RELEASE      := build/release
RELEASE_RDMA := $(RELEASE)/rdma-core

.PHONY: install for-users
install: for-users ##2 install lab, tools and the kernels that are built into PREFIX (/usr/local); DESTDIR=; KERNELS='v6.1 v7.3': these
	@scripts/install '$(DESTDIR)$(PREFIX)/lib/rxe-mpe' lab $(KERNELS)

.PHONY: release
release: for-users ##2 build/release: a tarball that runs from any folder, Debian packages, SHA256SUMS; KERNELS='v6.1': not all
	@scripts/release $(KERNELS)

.PHONY: image
image: for-users ## build/release: an OCI image whose entry point is rxe-vm (for root, after make deps-check); KERNELS= as for release
	@scripts/image $(KERNELS)

# LINUX_SRC is the source of BASE only.  rdma-core runs from any folder: guest/session makes a link to it.
for-users: needs $(RDMA_TREE)/.git
	@$(foreach base,$(KERNELS),$(MAKE) --no-print-directory kernel BASE=$(base) \
		$(if $(filter-out $(BASE),$(base)),LINUX_SRC=) &&) :
	$(LOCKED) $(RDMA_OUT) scripts/series apply $(RDMA_TREE) $(RDMA_SERIES) '$(RDMA_CORE_SRC)'
	@mkdir -p $(RELEASE_RDMA) && ln -sfn $(CURDIR)/$(RDMA_TREE) $(RELEASE_RDMA)/src
	$(LOCKED) $(RELEASE_RDMA) scripts/build-rdma-core $(RELEASE_RDMA) /run/rxe-vm/rdma-core
	$(LOCKED) $(RELEASE)/selftests $(MAKE) --no-print-directory -C selftests OUTPUT=$(CURDIR)/$(RELEASE)/selftests \
		RDMA_CORE=$(CURDIR)/$(RELEASE_RDMA) KSELFTEST=$(CURDIR)/build/$(firstword $(KERNELS))/src/tools/testing/selftests examples judge
	$(LOCKED) build/crash $(MAKE) --no-print-directory -C crash-states OUTPUT=$(CURDIR)/build/crash RDMA_CORE=$(CURDIR)/$(RELEASE_RDMA)
	@scripts/man-pages

.PHONY: export
export: ##3 write the commits of the trees back as the patches of the series; OWN=1: also where a shared patch differs
	@for pair in $(KERNEL_TREE):$(KERNEL_SERIES) $(RDMA_TREE):$(RDMA_SERIES) $(IP_TREE):$(IP_SERIES) \
		$(PT_TREE):$(PT_SERIES) $(WS_TREE):$(WS_SERIES) $(LF_TREE):$(LF_SERIES); do \
		[ ! -e "$${pair%:*}/.git" ] || scripts/series export "$${pair%:*}" "$${pair#*:}" || exit; \
	done

.PHONY: clean
clean: ## remove what was built; keep the trees, which may hold your work, and the cache
	@[ ! -d build ] || find build -mindepth 2 -maxdepth 2 ! -name src -exec rm -rf {} +
	@[ ! -d build ] || find build -mindepth 1 -maxdepth 1 '(' -empty -o ! -type d ')' -delete
