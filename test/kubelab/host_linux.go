//go:build linux

package kubelab

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-metal/holdfast/test/sshd"
)

// enter turns this machine into a host with its own /etc, /var/lib and programs, for its
// child processes.
const enter = `set -e
d="$1"; shift
for at in etc var/lib; do
  mkdir -p "$d/up/$at" "$d/work/$at"
  mount -t overlay overlay -o "lowerdir=/$at,upperdir=$d/up/$at,workdir=$d/work/$at" "/$at"
done
mount --bind "$d/bin" /usr/local/bin
exec "$@"
`

// Programs in a host's /usr/local/bin, which precedes /usr/bin. kubeadm is the real one,
// without its preflight checks of containers and the kernel, which the stand-in for the
// kubelet does not need. The containers of a control plane do not run, so kubeadm does not
// wait for them.
const (
	kubeadmProgram = `#!/bin/sh
case "$1" in
upgrade) exit 0 ;;
join)
  echo join >>@DIR@/joins
  while [ -e @DIR@/hold ]; do sleep 0.1; done
  exec @BIN@/kubeadm "$@" --ignore-preflight-errors=all --skip-phases=wait-control-plane ;;
esac
exec @BIN@/kubeadm "$@"
`
	systemctlProgram = `#!/bin/sh
case "$1" in
start | restart)
  [ -e /etc/kubernetes/bootstrap-kubelet.conf ] || [ -e /etc/kubernetes/kubelet.conf ] || exit 0
  [ -e @DIR@/pid ] && kill "$(cat @DIR@/pid)" 2>/dev/null
  setsid env -i PATH="$PATH" @DIR@/kubelet -dir @DIR@ >>@DIR@/kubelet.log 2>&1 </dev/null &
  echo $! >@DIR@/pid ;;
stop) [ -e @DIR@/pid ] && kill "$(cat @DIR@/pid)" 2>/dev/null; rm -f @DIR@/pid ;;
is-active) [ -e @DIR@/pid ] && kill -0 "$(cat @DIR@/pid)" && echo active ;;
esac
`
	kubeletProgram = "#!/bin/sh\necho Kubernetes " + version + "\n"
	nothing        = "#!/bin/sh\nexit 0\n"
)

// Host is a host that can be joined to a cluster, once.
type Host struct {
	*sshd.Server
	t   testing.TB
	dir string
}

// StartHost starts a host with a system UUID.
func StartHost(t testing.TB, bin, dir, uuid string) *Host {
	t.Helper()
	h := &Host{t: t, dir: dir}
	if err := os.MkdirAll(filepath.Join(dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := own(t.Context(), filepath.Join(dir, "kubelet"), "./test/kubelab/kubelet"); err != nil {
		t.Fatal(err)
	}
	in := strings.NewReplacer("@DIR@", dir, "@BIN@", bin)
	for name, text := range map[string]string{
		"kubeadm": kubeadmProgram, "systemctl": systemctlProgram, "kubelet": kubeletProgram, "apt-get": nothing,
		"apt-cache": nothing, "apt-mark": nothing,
	} {
		h.write("bin/"+name, in.Replace(text), 0o755)
	}
	h.write("uuid", uuid+"\n", 0o644)
	h.write("enter", enter, 0o644)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	_ = l.Close()
	if h.Server, err = sshd.StartIn(
		t.Context(), filepath.Join(dir, "sshd"), addr, "unshare", "--mount", "--propagation", "private", "sh",
		filepath.Join(dir, "enter"), dir,
	); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		h.Close()
		h.stopKubelet()
	})
	return h
}

// stopKubelet kills the stand-in, which has no parent.
func (h *Host) stopKubelet() {
	pid, err := os.ReadFile(filepath.Join(h.dir, "pid"))
	if err != nil {
		return
	}
	kill(strings.TrimSpace(string(pid)), filepath.Join(h.dir, "kubelet"))
}

// Hold keeps kubeadm from starting until letGo is called.
func (h *Host) Hold() (letGo func()) {
	h.write("hold", "", 0o644)
	return func() { _ = os.Remove(filepath.Join(h.dir, "hold")) }
}

// Ready makes the node Ready.
func (h *Host) Ready() { h.write("ready", "", 0o644) }

// Joins returns how often kubeadm was asked to join.
func (h *Host) Joins() int {
	b, err := os.ReadFile(filepath.Join(h.dir, "joins"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		h.t.Fatal(err)
	}
	return strings.Count(string(b), "\n")
}

func (h *Host) write(name, text string, mode os.FileMode) {
	h.t.Helper()
	path := filepath.Join(h.dir, name)
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		h.t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil { // despite the umask
		h.t.Fatal(err)
	}
}
