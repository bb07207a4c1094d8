# What is done in this repository, in one place. `make help` lists it.
#
# Needed: Go, gcc (for -race), git, make; protoc for the proto targets. Everything else is
# built from tools/go.mod, at the versions pinned there.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules

VERSION := $(or $(shell git describe --tags --always --dirty 2>/dev/null),dev)
BINARIES := $(notdir $(wildcard cmd/*))
TOOLS := bin/tools/golangci-lint bin/tools/govulncheck bin/tools/protoc-gen-go bin/tools/protoc-gen-go-grpc

# The version comes from git describe, so Go need not ask git for it: it fails where the
# checkout belongs to somebody else. All is compiled in the way of releases, static and
# without paths of this machine, so that it is compiled once, and once more for -race.
export GOFLAGS := $(strip $(GOFLAGS) -buildvcs=false -trimpath)
export CGO_ENABLED ?= 0

# For `make demo`, e.g. ARGS="--machines 50 --exit".
ARGS ?=
# How long each fuzz target runs, and how long a package may test.
FUZZTIME ?= 10s
TEST_TIMEOUT ?= 20m
# Empty: `make test` also runs the suites that take minutes. CI runs them by `make race`.
SHORT ?= -short
# For `make chaos` and `make soak`.
SEED ?=
FAULTS ?=
MINUTES ?= 60
# For `make mutants`.
MUTANTS ?= all

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: build
build: $(addprefix build-,$(BINARIES)) ## Build the static binaries into bin/

build-%:
	go build -ldflags '-X main.version=$(VERSION)' -o bin/$* ./cmd/$*

# The kernel comes out of Debian's package (KERNEL=linux-image-amd64 has drivers of real machines too, the cloud one those of virtual ones); CA= goes into the
# image when peers serve HTTPS under a CA of their own. Needs apt-get and dpkg-deb, no root.
NETBOOT_ARCH ?= amd64
KERNEL ?= linux-image-cloud-$(NETBOOT_ARCH)
NETBOOT = bin/netboot$(if $(filter-out amd64,$(NETBOOT_ARCH)),-$(NETBOOT_ARCH))
CA ?=
.PHONY: netboot
netboot: ## Build the kernel and the initramfs that install machines, into bin/netboot (KERNEL=package CA=file); NETBOOT_ARCH=arm64: for these, into bin/netboot-arm64
	GOARCH=$(NETBOOT_ARCH) go build -ldflags '-s -w -X main.version=$(VERSION)' -o $(NETBOOT)/holdfast-agent ./cmd/holdfast-agent
	NETBOOT_ARCH=$(NETBOOT_ARCH) tools/netboot.sh $(KERNEL) $(NETBOOT) $(CA)

.PHONY: man
man: ## Write the manual pages, one for each command, into bin/man
	go run ./cmd/holdfast man bin/man

# docs/packages.md says what comes out, and how to sign it. ARCHES="amd64" makes less.
.PHONY: release
release: ## Make a release: static binaries, debs, rpms, bills of materials, sums, into bin/release/VERSION (VERSION=1.2.3)
	@[ '$(origin VERSION)' = 'command line' ] || { echo 'release: which version? make release VERSION=1.2.3' >&2; exit 2; }
	tools/release.sh '$(VERSION)'

# Once for each release, from its build; what is written is committed, and opened by every later build (test/golden).
.PHONY: golden-data
golden-data: ## Write the data directory of a release into test/golden/testdata/VERSION (VERSION=1.2.3)
	@[ '$(origin VERSION)' = 'command line' ] || { echo 'golden-data: of which version? make golden-data VERSION=1.2.3' >&2; exit 2; }
	GOLDEN_VERSION='$(VERSION)' go test -count=1 -v -run '^TestWrite$$' ./test/golden

# Needs root, Debian's systemd-container, debootstrap and a mirror; the root of the host is built once, into /var/cache/holdfast (E2E_HOST_ROOT=dir).
.PHONY: release-check
release-check: ## Make two releases, and install, upgrade, remove and purge their debs on a real systemd host, in a container (3 minutes)
	tools/release-check.sh

# Most tests that run in parallel wait for a cluster, a process or a BMC, so there are twice as many as processors.
.PHONY: test
test: ## Run the tests in their short form: needs Go, gcc, git and make, nothing else
	go test $(SHORT) $(TEST_FLAGS) -parallel $$((2 * $$(nproc))) -timeout $(TEST_TIMEOUT) ./...

.PHONY: test-long
test-long: ## Run all tests, also every boundary of every step where a leader can die
	$(MAKE) test SHORT=

.PHONY: race
race: ## Run all tests under the race detector
	CGO_ENABLED=1 $(MAKE) test SHORT= TEST_FLAGS=-race

.PHONY: e2e
e2e: ## Run the tests that start real processes, always anew
	CGO_ENABLED=1 go test -race -count=1 -timeout 40m ./test/...

# Needs Debian, root and a mirror; it installs what is missing (openipmi, ipmitool, qemu-system-x86, python3-pyghmi, systemd-container, debootstrap), and starts and stops
# everything by itself. No KVM. The root of the host with sshd is that of e2e-ssh.
.PHONY: e2e-bmc
e2e-bmc: ## Run BMCs over Redfish and IPMI with real machines (QEMU) behind them, and sshd on a systemd host: conformance, quirks, chaos (5 minutes)
	E2E_BMC=1 go test -count=1 -timeout 10m -v -p 1 ./test/bmclab ./providers/bmc
	E2E_SSH=1 go test -count=1 -timeout 10m -v -run '^TestSystemdHost$$/^Conformance$$' ./providers/ssh

# Needs Debian, and root or qemu-system-x86 and e2fsprogs, which it installs when they are missing. No KVM.
.PHONY: e2e-installer
e2e-installer: netboot ## Install real machines (QEMU) with the netboot image, over a network that breaks (5 minutes)
	E2E_INSTALLER=1 go test -count=1 -timeout 15m -v -run '^TestQEMU' ./internal/installer

# Needs Debian and root: the root file system is made once, with that of make e2e-repave.
.PHONY: e2e-tar
e2e-tar: netboot ## Install machines (QEMU) with a root file system that comes as tar, and boot them by BIOS and UEFI (8 minutes)
	E2E_TAR=1 go test -count=1 -timeout 15m -v -run '^TestTarBoots$$' ./internal/installer

# Needs Debian and root; it installs what is missing, and makes the image that is installed once, into /var/cache/holdfast/repave (E2E_REPAVE_CACHE=dir). No KVM. E2E_REPAVE_DHCP=dnsmasq
# lets dnsmasq tell firmware what to boot, as docs/netboot.md has it; E2E_REPAVE_BOXES=1 is quicker.
.PHONY: e2e-repave
e2e-repave: netboot ## Install three bare machines (QEMU, BMCs, empty disks) over their network, and join them to a real Kubernetes cluster, the leader killed three times (15 minutes)
	E2E_REPAVE=1 go test -count=1 -timeout 20m -v -run '^TestRepave$$' ./test/repavelab

.PHONY: e2e-httpboot
e2e-httpboot: netboot ## Boot a machine (QEMU) whose UEFI knows HTTP boot alone, by what the peers answer, into the installer (2 minutes)
	E2E_REPAVE=1 go test -count=1 -timeout 10m -v -run '^TestHTTPBoot$$' ./test/repavelab

.PHONY: e2e-dhcp
e2e-dhcp: ## Let dnsmasq and Kea answer firmware by the configurations of docs/netboot.md (10 seconds; root)
	E2E_DHCP=1 go test -count=1 -timeout 5m -v -run '^TestDHCPSnippets$$' ./test/repavelab

.PHONY: e2e-repave-fails
e2e-repave-fails: netboot ## Let everything fail that can on the way of a bare machine (QEMU), and then install it (10 minutes)
	E2E_REPAVE=1 go test -count=1 -timeout 20m -v -run '^TestRepaveFails$$' ./test/repavelab

# Needs Debian, root and a mirror, and installs systemd-container and debootstrap; the root of the host is built once, into /var/cache/holdfast (E2E_SSH_ROOT=dir).
.PHONY: e2e-ssh
e2e-ssh: ## Run the provider ssh against a real sshd on a real systemd host, in a container (4 minutes)
	E2E_SSH=1 go test -count=1 -timeout 15m -v -run '^TestSystemdHost$$' ./providers/ssh

# Needs chromium, or Chrome: it installs Debian's chromium where there is neither. Pictures of all pages are left in test/e2e/ui/out.
.PHONY: e2e-ui
e2e-ui: ## Go through the dashboard in a real browser, against three peers, one of which dies (3 minutes)
	command -v google-chrome >/dev/null || tools/debs.sh /usr/bin/chromium:chromium
	E2E_UI=1 go -C test/e2e/ui test -count=1 -timeout 15m -v .

# Any git reference that a cluster may run. Default: the newest tag, or the last build before the present feature level.
PREVIOUS ?= $(or $(shell git describe --tags --abbrev=0 2>/dev/null),$(shell git log -1 --format=%H^ -- fsm/level.go 2>/dev/null))
.PHONY: e2e-previous
e2e-previous: ## Bring three peers from an earlier build to this one and one of them back, in every mixture (PREVIOUS=v1.2.2; 3 minutes)
	E2E_PREVIOUS='$(PREVIOUS)' go test -count=1 -timeout 30m -v -run '^TestPreviousBuild$$' ./test/mixed

# Needs Debian, root and a mirror, and installs systemd-container, debootstrap and ansible-core; the root of the hosts is built once, into /var/cache/holdfast (E2E_HOST_ROOT=dir).
.PHONY: e2e-ansible
e2e-ansible: ## Roll out by Ansible to three real systemd hosts, in containers: site, upgrade, a lost host, growth to five; then monitoring, backup, restore, new keys, teardown (15 minutes)
	tools/debs.sh /usr/bin/systemd-nspawn:systemd-container /usr/sbin/debootstrap:debootstrap /usr/bin/ansible-playbook:ansible-core
	E2E_ANSIBLE=1 go test -count=1 -timeout 30m -v -run '^Test(Rollout|Recovery)$$' ./test/rollout

# Needs ansible-lint (Debian: apt-get install ansible-lint). What it checks by is deploy/ansible/.ansible-lint.
.PHONY: lint-ansible
lint-ansible: ## Check the plays and roles of deploy/ansible with ansible-lint, profile production
	cd deploy/ansible && ansible-lint

# VersityGW is built from tools/s3server, a module of its own, the first time: three minutes of CPU.
.PHONY: build-s3server e2e-s3
build-s3server:
	go -C tools/s3server build -o ../../bin/versitygw github.com/versity/versitygw/cmd/versitygw

e2e-s3: build-s3server ## Archive runs to a real S3 server, read them through every peer, and take the server away (1 minute, and 3 the first time)
	E2E_S3=1 go test -count=1 -timeout 10m -v -run '^TestArchiveToS3$$' ./test/archive

# Needs Debian, root and a mirror, or ironic-api and ironic-conductor, which it installs when they are missing; it starts and stops them itself.
.PHONY: e2e-ironic
e2e-ironic: ## Run the provider ironic against Debian's Ironic with its fake hardware (5 minutes)
	E2E_IRONIC=1 go test -count=1 -timeout 10m -v -run '^TestDebian' ./providers/ironic

# Needs Debian and root: etcd-server and sshd, which it installs, and overlay mounts. kube-apiserver, kube-controller-manager and kubeadm are built once from tools/kube, into
# /var/cache/holdfast/kube (E2E_KUBE_CACHE=dir): about eight minutes of CPU.
.PHONY: e2e-kube
e2e-kube: ## Join, verify and drain a machine in a real Kubernetes cluster, and join a control plane (2 minutes, and 8 more the first time)
	tools/debs.sh /usr/sbin/sshd:openssh-server
	E2E_KUBE=1 go test -count=1 -timeout 40m -v -run '^(TestMachineInACluster|TestControlPlaneJoins)$$' ./test/kubelab

# Each target installs what it needs. PREVIOUS names the build that e2e-previous starts from. TARGETS="e2e-bmc e2e-ssh" runs these alone.
TARGETS ?=
.PHONY: e2e-all
e2e-all: ## Run every end-to-end target in turn, go on after a failure, print one table (Debian, root; 90 minutes)
	PREVIOUS='$(PREVIOUS)' tools/e2e-all.sh $(TARGETS)

# SEED= repeats one, FAULTS=a,b picks some; see test/robustness/README.md.
.PHONY: chaos
chaos: ## Break a cluster under traffic, in every way, and check everything: 3 to 6 minutes (SEED=n FAULTS=a,b)
	CHAOS=1 CHAOS_SEED=$(SEED) CHAOS_FAULTS=$(FAULTS) go test -count=1 -v -timeout 15m -run '^TestChaos$$' ./test/robustness

.PHONY: crash
crash: ## Kill a peer at every line between two durable effects, and the command that restores (4 minutes)
	CRASH=1 go test -count=1 -timeout 15m -run '^TestCrash$$' ./test/failpoint
	CRASH=1 go test -count=1 -timeout 5m -run '^TestRestoreIsKilled$$' ./test/operator

.PHONY: mutants
mutants: ## Break each rule of the product in turn, and show that the suite notices (MUTANTS=a,b)
	MUTANTS=$(MUTANTS) go test -count=1 -v -timeout 30m -run '^TestMutants$$' ./test/robustness/mutant

.PHONY: chaos-figures
chaos-figures: ## Measure what 30 kills of the leader under load cost: wants the machine for itself
	KILL_FIGURES=1 go test -count=1 -v -timeout 15m -run '^TestKillFigures$$' ./test/robustness

.PHONY: soak
soak: ## Break a cluster every 15 s for MINUTES (60), and check everything every 5 minutes
	SOAK_MINUTES=$(MINUTES) CHAOS_SEED=$(SEED) go test -count=1 -v -timeout 0 -run '^TestSoak$$' ./test/robustness

# Who gets in and what he may do: the matrix of callers and methods, forged and stolen credentials, limits, certificates, sealed values.
.PHONY: test-security
test-security: ## Run the tests of TLS, identities, roles, secrets, audit and limits
	CGO_ENABLED=1 go test -race -count=1 -timeout 15m ./server/auth/... ./server/inproc ./internal/secrets/... ./server/issuer/... ./cluster/peertls/... ./cluster/keyfile
	CGO_ENABLED=1 go test -race -count=1 -timeout 15m -run 'Matrix|WhoDidIt|Forged|Revoked|Bootstrap|Scoped|Loris|Oversized|PingFlood|RateLimit|PlainText|Secret|Audit|Token' ./server
	go test -count=1 -timeout 10m -run 'TLS|Gossip|Forward|Removed|Peer' ./cluster
	go test -count=1 -timeout 15m ./test/security

.PHONY: fuzz-short
fuzz-short: ## Run every fuzz target for FUZZTIME (10s)
	tools/fuzz.sh $(FUZZTIME)

.PHONY: lint
lint: bin/tools/golangci-lint bin/tools/govulncheck ## Check the code with golangci-lint (go vet is in it) and govulncheck
	bin/tools/golangci-lint run ./...
	tools/hooks/commit-msg --range "$$(git rev-list --max-count=50 HEAD | tail -n 1)..HEAD"
	tools/vuln.sh

.PHONY: texts
texts: ## List every error, log line, help line, dashboard string and alert (KIND=error,help,…)
	@go -C tools run ./texts $(if $(KIND),-kind $(KIND)) ..

.PHONY: hooks
hooks: ## Check the messages of your commits before they are made
	git config core.hooksPath tools/hooks

.PHONY: fmt
fmt: bin/tools/golangci-lint ## Format the code the way lint wants it
	bin/tools/golangci-lint fmt

.PHONY: proto
proto: bin/tools/protoc-gen-go bin/tools/protoc-gen-go-grpc ## Generate the Go code of proto/
	tools/proto.sh generate

.PHONY: proto-check
proto-check: bin/tools/protoc-gen-go bin/tools/protoc-gen-go-grpc ## Fail when generated code is not what proto/ says
	tools/proto.sh check

.PHONY: demo
demo: ## Run the demo: three peers, a fleet of fake machines, a dead leader (ARGS="--exit")
	go run ./cmd/holdfast demo $(ARGS)

# ARGS= goes to the benchmarks. docs/performance.md says what there is and what the figures mean. What they are compared with are modules of their own:
# nothing of it is linked into peers. etcd is built from the module proxy; without it the one in $PATH is taken (Debian: etcd-server). Ironic is compared with
# where it is installed: no benchmark installs packages by itself.
.PHONY: install-ironic
install-ironic: ## Install Debian's Ironic, without starting its services: bench and e2e-ironic start their own (as root)
	providers/ironic/testdata/install.sh

build-redisgateway:
	go -C tools/redisgateway build -o ../../bin/redisgateway .

build-etcd:
	go -C tools/etcd build -o ../../bin/etcd . || echo "etcd was not built: what there is in the PATH is compared with"

BENCH_SHORT := --rounds 3 --slice 500ms
.PHONY: bench
bench: build-holdfast build-holdfast-bench build-redisgateway build-etcd ## Measure on this machine, a short version of all: 7 minutes (ARGS="--raft-multiplier 3")
	bin/holdfast-bench commit $(BENCH_SHORT) --clients 1,64,256 $(ARGS)
	bin/holdfast-bench read $(BENCH_SHORT) $(ARGS)
	bin/holdfast-bench failover --kills 3 $(ARGS)
	bin/holdfast-bench watch --watchers 1000 $(ARGS)
	bin/holdfast-bench runs $(BENCH_SHORT) --runs 1000 $(ARGS)
	bin/holdfast-bench growth --machines 1000,10000 --slice 500ms $(ARGS)
	bin/holdfast-bench keepalive --agents 10000 --beat 20s --duration 30s --storm 2000 --rounds 5 --slice 1s $(ARGS)

.PHONY: bench-goals
bench-goals: build-holdfast build-holdfast-bench build-redisgateway build-etcd ## Measure at full size and fail where a goal is missed: 30 minutes and 12 GiB, wants the machine for itself
	bin/holdfast-bench goals $(ARGS)

.PHONY: bench-smoke
bench-smoke: build-etcd ## Run each benchmark as small as it can be, to see that it works: 2 minutes
	PATH="$$PWD/bin:$$PATH" BENCH_SMOKE=1 go test -count=1 -timeout 15m -run TestSmoke ./internal/bench

# The race target runs test/ too: `make e2e` would do the same work twice.
.PHONY: ci
ci: ## Do everything a change has to pass, in order
	$(MAKE) proto-check
	$(MAKE) lint
	$(MAKE) build
	$(MAKE) race
	$(MAKE) crash
	$(MAKE) chaos
	$(MAKE) fuzz-short FUZZTIME=3s # sixty targets, and all of it within the hour: longer by hand
	$(MAKE) demo ARGS='--machines 20 --exit --json'

.PHONY: tools
tools: $(TOOLS) ## Build the pinned tools into bin/tools/

# A tool is built again only when its pin has moved.
bin/tools/golangci-lint: TOOL = github.com/golangci/golangci-lint/v2/cmd/golangci-lint
bin/tools/govulncheck: TOOL = golang.org/x/vuln/cmd/govulncheck
bin/tools/protoc-gen-go: TOOL = google.golang.org/protobuf/cmd/protoc-gen-go
bin/tools/protoc-gen-go-grpc: TOOL = google.golang.org/grpc/cmd/protoc-gen-go-grpc
$(TOOLS): tools/go.mod tools/go.sum
	@mkdir -p $(@D)
	go -C tools build -o ../$@ $(TOOL)
	@touch $@

.PHONY: clean
clean: ## Remove what was built
	rm -rf bin
