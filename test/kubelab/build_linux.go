//go:build linux

package kubelab

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/holdfast-metal/holdfast/test/overlay"
)

// version is the version of the control plane in tools/kube/go.mod.
const version = "v1.36.3"

// programs returns its programs, in an order in which each build reuses most of the one
// before.
func programs() []string { return []string{"kube-apiserver", "kubeadm", "kube-controller-manager"} }

// Kubelet builds the stand-in for the kubelet. It is static, for a host without libraries.
func Kubelet(ctx context.Context, out string) error { return own(ctx, out, "./test/kubelab/kubelet") }

// Build installs etcd if it is missing, builds the missing programs of the control plane,
// and returns their directory. The first build takes about six minutes of two cores, at
// lowest priority. The directory is E2E_KUBE_CACHE, or /var/cache/holdfast/kube by default.
func Build(ctx context.Context) (string, error) {
	if err := etcd(ctx); err != nil {
		return "", err
	}
	cache := os.Getenv("E2E_KUBE_CACHE")
	if cache == "" {
		cache = "/var/cache/holdfast/kube"
	}
	cache = filepath.Join(cache, version)
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", fmt.Errorf("build Kubernetes: %w", err)
	}
	number, _, _ := strings.Cut(strings.TrimPrefix(version, "v1."), ".")
	const at = "k8s.io/component-base/version."
	flags := []string{
		"-s", "-w", "-X", at + "gitVersion=" + version, "-X", at + "gitMajor=1", "-X",
		at + "gitMinor=" + number, "-X", at + "gitTreeState=clean", "-X", at + "buildDate=2026-01-01T00:00:00Z",
	}
	for _, p := range programs() {
		out := filepath.Join(cache, p)
		if _, err := os.Stat(out); err == nil {
			continue
		}
		// It has another name until it is complete, so that an interrupted build leaves no
		// broken program.
		cmd := exec.CommandContext(ctx, "nice", "-n", "19", "go", "build", "-trimpath", "-ldflags",
			strings.Join(flags, " "), "-o", out+".part", "k8s.io/kubernetes/cmd/"+p)
		cmd.Dir, cmd.Env = filepath.Join(root(), "tools", "kube"), append(os.Environ(), "CGO_ENABLED=0",
			"GOFLAGS=-buildvcs=false", "GOWORK=off")
		if output, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("build %s: %w: %s", p, err, output)
		}
		if err := os.Rename(out+".part", out); err != nil {
			return "", fmt.Errorf("build %s: %w", p, err)
		}
	}
	return cache, nil
}

// own builds a program of this repository.
func own(ctx context.Context, out, pkg string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", out, pkg)
	cmd.Dir, cmd.Env = root(), append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false")
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w: %s", pkg, err, output)
	}
	return nil
}

// etcd installs Debian's etcd if it is missing.
func etcd(ctx context.Context) error {
	if _, err := exec.LookPath("etcd"); err == nil {
		return nil
	}
	cmd := exec.CommandContext(ctx, "apt-get", "install", "-y", "-q", "--no-install-recommends", "etcd-server")
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("install etcd: %w: %s", err, output)
	}
	return nil
}

// root returns the directory of the repository.
func root() string {
	dir, err := overlay.Root(".")
	if err != nil {
		return "." // the build then fails with a clear error
	}
	return dir
}
