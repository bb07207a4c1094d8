# All tasks of this repository. `make help` lists them.
#
# They need Go, gcc (for -race), git and make; the proto targets need protoc. Other tools are
# built from tools/go.mod at pinned versions.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules

VERSION := $(or $(shell git describe --tags --match 'v[0-9]*' --always --dirty 2>/dev/null),dev)
BINARIES := holdfast holdfast-agent holdfast-bench
TOOLS := bin/tools/golangci-lint bin/tools/govulncheck bin/tools/deadcode bin/tools/protoc-gen-go bin/tools/protoc-gen-go-grpc

# The modules of go.work, and all of their packages. Those that go.work does not hold are built with
# GOWORK=off; `make tidy` checks the ones whose dependencies the module proxy has in full.
MODULES := . ./proto ./client ./agent ./bench ./test
PACKAGES := $(addsuffix /...,$(MODULES))
OUTSIDE := deploy/terraform test/e2e/oidc test/e2e/ui
OFF := GOWORK=off go -C

# git describe sets the version, so Go does not ask git, which fails if another user owns the
# checkout. All targets compile as releases do, static and without local paths, so that they share
# the build cache; only -race compiles again.
export GOFLAGS := $(strip $(GOFLAGS) -buildvcs=false -trimpath)
export CGO_ENABLED ?= 0

# For `make demo`, e.g. ARGS="--machines 50 --exit".
ARGS ?=
# The time of each fuzz target, and the limit for the tests of a package.
FUZZTIME ?= 10s
TEST_TIMEOUT ?= 20m
# If empty, `make test` also runs the suites that take minutes. CI runs them with `make race`.
SHORT ?= -short
# The stores of Raft logs in `make crash`, `make chaos` and `make soak`: wal, boltdb, or mixed, which is
# wal on all peers but one.
STORE ?= mixed
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

build-holdfast: COMMAND := ./cmd/holdfast
build-holdfast-agent: COMMAND := ./agent/holdfast-agent
build-holdfast-bench: COMMAND := ./bench/holdfast-bench
build-%:
	go build -ldflags '-X main.version=$(VERSION)' -o bin/$* $(COMMAND)

# The kernel is Debian's. KERNEL=linux-image-amd64 has drivers of physical machines; the cloud
# kernel only those of virtual ones. Set CA= if peers serve HTTPS with a private CA. Needs apt-get
# and dpkg-deb, but not root.
NETBOOT_ARCH ?= amd64
KERNEL ?= linux-image-cloud-$(NETBOOT_ARCH)
NETBOOT = bin/netboot$(if $(filter-out amd64,$(NETBOOT_ARCH)),-$(NETBOOT_ARCH))
CA ?=
.PHONY: netboot
netboot: ## Build the kernel and initramfs of the installer in bin/netboot (KERNEL=package CA=file NETBOOT_ARCH=arm64)
	GOARCH=$(NETBOOT_ARCH) go build -ldflags '-s -w -X main.version=$(VERSION)' -o $(NETBOOT)/holdfast-agent ./agent/holdfast-agent
	NETBOOT_ARCH=$(NETBOOT_ARCH) tools/netboot.sh $(KERNEL) $(NETBOOT) $(CA)

.PHONY: man
man: ## Write the manual page of each command to bin/man
	go run ./cmd/holdfast man bin/man

# docs/packages.md lists the files and explains how to sign and verify them. ARCHES="amd64" builds one
# of the two architectures. The password of the key is in the environment, as SIGN_PASSWORD.
SIGN_KEY ?=
.PHONY: release
release: ## Build a release in bin/release/VERSION: binaries, debs, rpms, images, SBOMs, provenance, checksums (VERSION=1.2.3 SIGN_KEY=file)
	@[ '$(origin VERSION)' = 'command line' ] || { echo 'release: set the version: make release VERSION=1.2.3' >&2; exit 2; }
	SIGN_KEY='$(SIGN_KEY)' tools/release.sh '$(VERSION)'

# The modules that others import require each other at the version of the release. A directory replaces
# each of them here, so the version may be one that has no tag yet.
HOLDFAST := github.com/holdfast-metal/holdfast
.PHONY: versions
versions: ## Require the API and the SDK at the version of a release; commit that before it is built (VERSION=1.2.3)
	@[ '$(origin VERSION)' = 'command line' ] || { echo 'versions: set the version: make versions VERSION=1.2.3' >&2; exit 2; }
	$(OFF) client mod edit -require=$(HOLDFAST)/proto@v$(VERSION)
	for module in $(filter-out ./proto ./client,$(MODULES)) deploy/terraform; do \
		$(OFF) $$module mod edit -require=$(HOLDFAST)/proto@v$(VERSION) -require=$(HOLDFAST)/client@v$(VERSION); \
	done

# A module in a directory has tags of its own, which Go reads.
.PHONY: tags
tags: ## Print the commands that tag a release, and tag nothing (VERSION=1.2.3)
	@[ '$(origin VERSION)' = 'command line' ] || { echo 'tags: set the version: make tags VERSION=1.2.3' >&2; exit 2; }
	@grep -qE '$(HOLDFAST)/proto v$(subst .,\.,$(VERSION))$$' client/go.mod || { \
		echo 'tags: client/go.mod requires another version of the API: make versions VERSION=$(VERSION), and commit it' >&2; exit 1; }
	@for module in '' proto/ client/; do echo "git tag -s $${module}v$(VERSION) -m 'Holdfast $(VERSION)'"; done

.PHONY: image
image: ## Build only the OCI images of a release, into bin/release/VERSION (VERSION=1.2.3)
	@[ '$(origin VERSION)' = 'command line' ] || { echo 'image: set the version: make image VERSION=1.2.3' >&2; exit 2; }
	ONLY=images tools/release.sh '$(VERSION)'

.PHONY: test-modules
test-modules: ## Test the modules of images and of Terraform, which go test ./... does not see
	$(OFF) tools/release test -count=1 -timeout 2m ./... # it reads files outside of its module
	$(OFF) deploy/terraform test -timeout 2m ./...

# Run this once for each release and commit the result: every later build must open it (test/golden).
.PHONY: golden-data
golden-data: ## Write the data directory of a release to test/golden/testdata/VERSION (VERSION=1.2.3)
	@[ '$(origin VERSION)' = 'command line' ] || { echo 'golden-data: set the version: make golden-data VERSION=1.2.3' >&2; exit 2; }
	GOLDEN_VERSION='$(VERSION)' go test -count=1 -v -run '^TestWrite$$' ./test/golden

# Needs Debian, root, systemd-container and debootstrap. E2E_HOST_ROOT=dir sets the directory of the
# host's root.
.PHONY: release-check
release-check: ## Build two releases; install, upgrade, remove and purge them on a systemd host in a container (3 minutes)
	tools/release-check.sh

# Most parallel tests wait for a cluster, a process or a BMC, so two run per processor, and one package
# more than there are processors. `make lint` runs go vet on all code, so this does not run it again. The
# cache does not see that a file outside of the module of a test has changed, so ./test runs each time.
GO_TEST = go test $(SHORT) $(TEST_FLAGS) -vet=off -p $$(($$(nproc) + 1)) -parallel $$((2 * $$(nproc))) -timeout $(TEST_TIMEOUT)
.PHONY: test
test: ## Run the tests in their short form (needs only Go, gcc, git and make)
	@failed=0; \
	$(GO_TEST) $(filter-out ./test/...,$(PACKAGES)) || failed=1; \
	$(GO_TEST) -count=1 ./test/... || failed=1; \
	exit $$failed

.PHONY: test-long
test-long: ## Run all tests, also each boundary of each step where a leader can die
	$(MAKE) test SHORT=

# All modules in one go test, so that tests that wait and tests that compute run at the same time.
.PHONY: race
race: SHORT =
race: TEST_FLAGS = -race -count=1
race: export CGO_ENABLED = 1
race: ## Run all tests under the race detector
	$(GO_TEST) $(PACKAGES)

.PHONY: e2e
e2e: ## Run the tests that start real processes, without the test cache
	CGO_ENABLED=1 go test -race -count=1 -timeout 40m ./test/...

# The end-to-end targets need Debian, root and a mirror. They install missing packages, start and
# stop all services themselves, and need no KVM. Roots of hosts and images are built once, in
# /var/cache/holdfast.

# It shares the host with sshd with e2e-ssh.
.PHONY: e2e-bmc
e2e-bmc: ## Test BMCs (Redfish, IPMI) with QEMU machines, and sshd on a systemd host: conformance, quirks, chaos (5 minutes)
	E2E_BMC=1 go test -count=1 -timeout 10m -v -p 1 ./test/bmclab ./providers/bmc
	E2E_SSH=1 go test -count=1 -timeout 10m -v -run '^TestSystemdHost$$/^Conformance$$' ./providers/ssh

# It runs without root if qemu-system-x86 and e2fsprogs are installed.
.PHONY: e2e-installer
e2e-installer: netboot ## Install QEMU machines with the netboot image over a network that breaks (5 minutes)
	E2E_INSTALLER=1 go test -count=1 -timeout 15m -v -run '^TestQEMU' ./agent/installer

# It shares the root file system with e2e-repave.
.PHONY: e2e-tar
e2e-tar: netboot ## Install QEMU machines from a tar of a root file system; boot them with BIOS and UEFI (8 minutes)
	E2E_TAR=1 go test -count=1 -timeout 15m -v -run '^TestTarBoots$$' ./agent/installer

# The first of the targets with a repave builds Kubernetes and a disk image. The limit of a test must
# not depend on that.
PREPARE_REPAVE := E2E_REPAVE=1 go test -count=1 -timeout 60m -run '^$$' ./test/repavelab

# E2E_REPAVE_CACHE=dir sets the directory of the image. With E2E_REPAVE_DHCP=dnsmasq, dnsmasq answers
# the firmware as in docs/netboot.md. E2E_REPAVE_BOXES=1 installs one machine.
.PHONY: e2e-repave
e2e-repave: netboot ## Install three bare QEMU machines and join them to Kubernetes while the leader is killed three times (15 minutes)
	$(PREPARE_REPAVE)
	E2E_REPAVE=1 go test -count=1 -timeout 20m -v -run '^TestRepave$$' ./test/repavelab

.PHONY: e2e-httpboot
e2e-httpboot: netboot ## Boot a QEMU machine with UEFI HTTP boot into the installer (2 minutes)
	$(PREPARE_REPAVE)
	E2E_REPAVE=1 go test -count=1 -timeout 10m -v -run '^TestHTTPBoot$$' ./test/repavelab

.PHONY: e2e-dhcp
e2e-dhcp: ## Answer firmware with dnsmasq and Kea, configured as in docs/netboot.md (10 seconds)
	E2E_DHCP=1 go test -count=1 -timeout 5m -v -run '^TestDHCPSnippets$$' ./test/repavelab

.PHONY: e2e-repave-fails
e2e-repave-fails: netboot ## Install a bare QEMU machine while each part fails once (10 minutes)
	$(PREPARE_REPAVE)
	E2E_REPAVE=1 go test -count=1 -timeout 20m -v -run '^TestRepaveFails$$' ./test/repavelab

# E2E_SSH_ROOT=dir sets the directory of the host's root.
.PHONY: e2e-ssh
e2e-ssh: ## Test the provider ssh against sshd on a systemd host in a container (4 minutes)
	E2E_SSH=1 go test -count=1 -timeout 15m -v -run '^TestSystemdHost$$' ./providers/ssh

# It installs Debian's chromium if Chrome is missing, and saves a picture of each page in
# test/e2e/ui/out. E2E_UI_BINARY=file takes that binary instead of building one.
.PHONY: e2e-ui
e2e-ui: ## Test the dashboard in a browser, with three peers of which one dies (3 minutes)
	command -v google-chrome >/dev/null || tools/debs.sh /usr/bin/chromium:chromium
	E2E_UI=1 $(OFF) test/e2e/ui test -count=1 -timeout 15m -v .

# test/e2e/oidc is a module of its own. E2E_BINARY=file takes that binary instead of building one.
.PHONY: e2e-oidc
e2e-oidc: ## Sign people in with a real OpenID provider: dashboard, Chromium, holdfast login (1 minute)
	command -v google-chrome >/dev/null || tools/debs.sh /usr/bin/chromium:chromium
	E2E_OIDC=1 $(OFF) test/e2e/oidc test -count=1 -timeout 10m -v .

# deploy/terraform is a module of its own. Needs terraform 1.11 or later in the PATH.
# E2E_TERRAFORM_BINARY=file takes that holdfast instead of building one.
.PHONY: build-terraform e2e-terraform
build-terraform: ## Build the Terraform provider, bin/terraform-provider-holdfast
	$(OFF) deploy/terraform build -ldflags '-s -w -X main.version=$(VERSION)' -o ../../bin/ ./terraform-provider-holdfast

e2e-terraform: ## Test the Terraform provider: its unit tests, and terraform against a peer (1 minute)
	$(OFF) deploy/terraform vet ./...
	E2E_TERRAFORM=1 $(OFF) deploy/terraform test -count=1 -timeout 10m -v ./...

# The tag of a release. Default: the newest one. Without a tag the test is skipped.
PREVIOUS ?= $(shell git describe --tags --match 'v[0-9]*' --abbrev=0 2>/dev/null)
.PHONY: e2e-previous
e2e-previous: ## Upgrade three peers from an earlier release, in each mixture, and downgrade one (PREVIOUS=v1.2.2; 3 minutes)
	E2E_PREVIOUS='$(PREVIOUS)' go test -count=1 -timeout 30m -v -run '^TestPreviousBuild$$' ./test/mixed

.PHONY: e2e-ansible
e2e-ansible: ## Run all playbooks on systemd hosts in containers: site, upgrade, lost host, growth, backup, restore, keys (15 minutes)
	tools/debs.sh /usr/bin/systemd-nspawn:systemd-container /usr/sbin/debootstrap:debootstrap /usr/bin/ansible-playbook:ansible-core
	E2E_ANSIBLE=1 go test -count=1 -timeout 30m -v -run '^Test(Rollout|Recovery)$$' ./test/rollout

# Needs ansible-lint (Debian: apt-get install ansible-lint), configured in deploy/ansible/.ansible-lint.
.PHONY: lint-ansible
lint-ansible: ## Check deploy/ansible with ansible-lint, profile production
	cd deploy/ansible && ansible-lint

# The first run builds VersityGW from tools/s3server: three minutes of processor time.
.PHONY: build-s3server e2e-s3
build-s3server:
	$(OFF) tools/s3server build -o ../../bin/versitygw github.com/versity/versitygw/cmd/versitygw

e2e-s3: build-s3server ## Archive runs to an S3 server, read them from each peer, and stop the server (1 minute, 3 more the first time)
	E2E_S3=1 go test -count=1 -timeout 10m -v -run '^TestArchiveToS3$$' ./test/archive

.PHONY: e2e-ironic
e2e-ironic: ## Test the provider ironic against Debian's Ironic with its fake hardware (5 minutes)
	E2E_IRONIC=1 go test -count=1 -timeout 10m -v -run '^TestDebian' ./providers/ironic

# The first run builds kube-apiserver, kube-controller-manager and kubeadm from tools/kube in
# /var/cache/holdfast/kube (E2E_KUBE_CACHE=dir): eight minutes of processor time.
.PHONY: e2e-kube
e2e-kube: ## Join, verify and drain a machine in a Kubernetes cluster, and join a control plane (2 minutes, 8 more the first time)
	tools/debs.sh /usr/sbin/sshd:openssh-server
	E2E_KUBE=1 go test -count=1 -timeout 40m -v -run '^(TestMachineInACluster|TestControlPlaneJoins)$$' ./test/kubelab

# TARGETS="e2e-bmc e2e-ssh" selects targets. PREVIOUS is passed to e2e-previous.
TARGETS ?=
.PHONY: e2e-all
e2e-all: ## Run all end-to-end targets, continue after a failure, print one table (90 minutes)
	PREVIOUS='$(PREVIOUS)' tools/e2e-all.sh $(TARGETS)

# SEED= repeats a round, FAULTS= selects faults; see test/robustness/README.md.
.PHONY: chaos
chaos: ## Inject every fault into a cluster under traffic and check all promises (SEED=n FAULTS=a,b STORE=s; 3 to 6 minutes)
	HOLDFAST_TEST_LOG_STORE=$(STORE) CHAOS=1 CHAOS_SEED=$(SEED) CHAOS_FAULTS=$(FAULTS) go test -count=1 -v -timeout 15m -run '^TestChaos$$' ./test/robustness

.PHONY: crash
crash: ## Kill a peer, and the restore command, at each line between two durable effects (STORE=s; 4 minutes)
	HOLDFAST_TEST_LOG_STORE=$(STORE) CRASH=1 go test -count=1 -timeout 15m -run '^TestCrash$$' ./test/failpoint
	HOLDFAST_TEST_LOG_STORE=$(STORE) CRASH=1 go test -count=1 -timeout 5m -run '^TestRestoreIsKilled$$' ./test/operator

.PHONY: mutants
mutants: ## Break each rule of the product in turn and check that the suite notices (MUTANTS=a,b; 30 minutes)
	MUTANTS=$(MUTANTS) go test -count=1 -v -timeout 30m -run '^TestMutants$$' ./test/robustness/mutant

.PHONY: chaos-figures
chaos-figures: ## Measure the cost of 30 kills of the leader under load (on an idle machine)
	KILL_FIGURES=1 go test -count=1 -v -timeout 15m -run '^TestKillFigures$$' ./test/robustness

.PHONY: soak
soak: ## Inject a fault every 15 s for MINUTES (60) and check all promises every 5 minutes
	HOLDFAST_TEST_LOG_STORE=$(STORE) SOAK_MINUTES=$(MINUTES) CHAOS_SEED=$(SEED) go test -count=1 -v -timeout 0 -run '^TestSoak$$' ./test/robustness

# The matrix of callers and methods, forged and stolen credentials, limits, certificates, secrets.
.PHONY: test-security
test-security: ## Run the tests of TLS, identities, roles, secrets, audit and limits
	CGO_ENABLED=1 go test -race -count=1 -timeout 15m ./server/auth/... ./server/inproc ./internal/secrets/... ./server/issuer/... ./cluster/peertls/... ./cluster/keyfile
	CGO_ENABLED=1 go test -race -count=1 -timeout 15m -run 'Matrix|WhoDidIt|Forged|Revoked|Scoped|Loris|Oversized|PingFlood|RateLimit|PlainText|Secret|Audit|Token' ./server
	go test -count=1 -timeout 10m -run 'UnknownPeer|Rotation|Gossip|Forward|Removed|Peer' ./cluster ./cluster/internal/...
	go test -count=1 -timeout 15m ./test/security

# CAPTURES is a directory of NAME.json.gz, each the resources of one BMC by path. EXPECT may list the
# problems that the machines really have.
CAPTURES ?=
EXPECT ?=
.PHONY: captures
captures: ## Read captured Redfish trees of BMCs and print what was read (CAPTURES=directory EXPECT=file)
	@test -n "$(CAPTURES)" || { echo 'usage: make captures CAPTURES=DIR, where DIR has files NAME.json.gz: a JSON object'; \
		echo 'from path to answer, such as {"/redfish/v1/Systems": {"Members": [...]}}'; exit 2; }
	CAPTURES='$(abspath $(CAPTURES))' EXPECT='$(if $(EXPECT),$(abspath $(EXPECT)))' \
		go test -count=1 -v -run '^TestCaptures$$' ./providers/bmc | grep -v ' level='

.PHONY: fuzz-short
fuzz-short: ## Run every fuzz target for FUZZTIME (10s)
	tools/fuzz.sh $(FUZZTIME)

.PHONY: lint
lint: bin/tools/golangci-lint bin/tools/govulncheck bin/tools/deadcode ## Check the code with golangci-lint, which includes go vet, deadcode and govulncheck
	bin/tools/golangci-lint run $(PACKAGES)
	tools/deadcode.sh $(PACKAGES)
	tools/hooks/commit-msg --range "$$(git rev-list --max-count=50 HEAD | tail -n 1)..HEAD"
	tools/vuln.sh $(PACKAGES)

# A change of the graph of modules is a change of its own: each go.mod lists all that its module needs, and
# nothing else. It fetches what it lacks.
.PHONY: tidy
tidy: ## Check that go mod tidy would change no module
	@for module in $(MODULES) $(OUTSIDE); do \
		$(OFF) $$module mod tidy -diff || { echo "tidy: run go mod tidy in $$module, with GOWORK=off" >&2; exit 1; }; \
	done

.PHONY: texts
texts: ## List every error, log line, help line, dashboard string and alert (KIND=error,help,…)
	@$(OFF) tools run ./texts $(if $(KIND),-kind $(KIND)) ..

.PHONY: hooks
hooks: ## Install a git hook that checks the messages of your commits
	git config core.hooksPath tools/hooks

.PHONY: fmt
fmt: bin/tools/golangci-lint ## Format the code
	bin/tools/golangci-lint fmt

.PHONY: proto
proto: bin/tools/protoc-gen-go bin/tools/protoc-gen-go-grpc ## Generate the Go code and the OpenAPI description of proto/
	tools/proto.sh generate
	UPDATE_GOLDEN=1 go test -run TestV1 ./server/openapi

.PHONY: proto-check
proto-check: bin/tools/protoc-gen-go bin/tools/protoc-gen-go-grpc ## Check that generated code matches proto/
	tools/proto.sh check

# Only the protos need a tool: `make test` compares flags, keys, metrics and the rest (test/compat).
.PHONY: compat
compat: bin/tools/buf ## Compare proto/ with that of each release, and check the rules for that
	tools/compat.sh check
	COMPAT_BUF='$(abspath $<)' go test -count=1 -timeout 5m -run '^TestProtoRules$$' ./test/compat

# Run this once for each minor release, at its tag, and commit the result.
.PHONY: compat-record
compat-record: bin/tools/buf ## Record what is stable in a release in test/compat/testdata/VERSION (VERSION=1.2.0)
	@[ '$(origin VERSION)' = 'command line' ] || { echo 'compat-record: set the version: make compat-record VERSION=1.2.0' >&2; exit 2; }
	tools/compat.sh record '$(VERSION)'
	COMPAT_VERSION='$(VERSION)' go test -count=1 -timeout 10m -v -run '^TestRecord$$' ./test/compat

.PHONY: demo
demo: ## Run the demo: three peers, a fleet of fake machines, a dead leader (ARGS="--exit")
	go run ./cmd/holdfast demo $(ARGS)

# ARGS= is passed to the benchmarks; docs/performance.md explains them. The systems that they compare
# with are modules of their own and are not linked into peers. etcd is built from the module proxy;
# if that fails, the one in $PATH is used (Debian: etcd-server). Ironic is compared if it is installed.
.PHONY: install-ironic
install-ironic: ## Install Debian's Ironic without starting its services; bench and e2e-ironic start their own (root)
	providers/ironic/testdata/install.sh

build-redisgateway:
	$(OFF) tools/redisgateway build -o ../../bin/redisgateway .

build-etcd:
	$(OFF) tools/etcd build -o ../../bin/etcd . || echo "build etcd: failed; the benchmarks use the one in the PATH"

BENCH_SHORT := --rounds 3 --slice 500ms
.PHONY: bench
bench: build-holdfast build-holdfast-bench build-redisgateway build-etcd ## Run a short form of all benchmarks (ARGS="--raft-multiplier 3"; 7 minutes)
	bin/holdfast-bench commit $(BENCH_SHORT) --clients 1,64,256 $(ARGS)
	bin/holdfast-bench read $(BENCH_SHORT) $(ARGS)
	bin/holdfast-bench failover --kills 3 $(ARGS)
	bin/holdfast-bench watch --watchers 1000 $(ARGS)
	bin/holdfast-bench runs $(BENCH_SHORT) --runs 1000 $(ARGS)
	bin/holdfast-bench growth --machines 1000,10000 --slice 500ms $(ARGS)
	bin/holdfast-bench keepalive --agents 10000 --keepalive 20s --duration 30s --storm 2000 --rounds 5 --slice 1s $(ARGS)

.PHONY: bench-goals
bench-goals: build-holdfast build-holdfast-bench build-redisgateway build-etcd ## Run all benchmarks at full size; fail if a goal is missed (30 minutes, 12 GiB, on an idle machine)
	bin/holdfast-bench goals $(ARGS)

.PHONY: bench-smoke
bench-smoke: build-etcd ## Run each benchmark in its smallest form, to check that it works (2 minutes)
	PATH="$$PWD/bin:$$PATH" BENCH_SMOKE=1 go test -count=1 -timeout 15m -run TestSmoke ./bench

.PHONY: bench-guard
bench-guard: ## Check the budgets of allocations, log bytes and writes of the most frequent operations (20 seconds)
	tools/bench-guard.sh

# REF is a commit. BENCH selects parts, e.g. BENCH=fsm,startrun (bin/holdfast-bench compare --help).
REF ?= HEAD
BENCH ?=
.PHONY: bench-compare
bench-compare: ## Build REF and this tree, run the same benchmarks of both in turn, print one table (REF=main BENCH=fsm,reads ARGS="--rounds 9"; 6 minutes)
	tools/bench-compare.sh '$(REF)' '$(BENCH)' $(ARGS)

# `make race` includes the tests of `make e2e`.
.PHONY: ci
ci: ## Run everything that a change must pass
	$(MAKE) tidy
	$(MAKE) proto-check
	$(MAKE) compat
	$(MAKE) lint
	$(MAKE) build
	$(MAKE) bench-guard # some budgets do not hold under the race detector
	$(MAKE) race
	$(MAKE) test-modules
	$(MAKE) crash
	$(MAKE) chaos
	$(MAKE) fuzz-short FUZZTIME=3s # there are about sixty targets
	$(MAKE) demo ARGS='--machines 20 --exit --json'

.PHONY: tools
tools: $(TOOLS) ## Build the pinned tools into bin/tools/

# A tool is rebuilt only if its version has changed.
bin/tools/golangci-lint: TOOL = github.com/golangci/golangci-lint/v2/cmd/golangci-lint
bin/tools/deadcode: TOOL = golang.org/x/tools/cmd/deadcode
bin/tools/govulncheck: TOOL = golang.org/x/vuln/cmd/govulncheck
bin/tools/protoc-gen-go: TOOL = google.golang.org/protobuf/cmd/protoc-gen-go
bin/tools/protoc-gen-go-grpc: TOOL = google.golang.org/grpc/cmd/protoc-gen-go-grpc
$(TOOLS): tools/go.mod tools/go.sum
	@mkdir -p $(@D)
	$(OFF) tools build -o ../$@ $(TOOL)
	@touch $@

bin/tools/buf: tools/buf/go.mod tools/buf/go.sum
	@mkdir -p $(@D)
	$(OFF) tools/buf build -o ../../$@ github.com/bufbuild/buf/cmd/buf
	@touch $@

.PHONY: clean
clean: ## Remove bin/
	rm -rf bin
