package seed

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/holdfast-metal/holdfast/agent/installer/peers"
)

func TestEnforcing(t *testing.T) {
	tests := []struct {
		config string
		want   bool
	}{
		{"", false},
		{"SELINUX=enforcing\nSELINUXTYPE=targeted\n", true},
		{"# SELINUX=enforcing\nSELINUX=permissive\n", false},
		{"#SELINUX=disabled\n  SELINUX = Enforcing  ", true},
		{"SELINUX=enforcing\nSELINUX=disabled\n", false},
		{"SELINUXTYPE=enforcing\n", false},
	}
	for _, tt := range tests {
		if got := enforcing(tt.config); got != tt.want {
			t.Errorf("%q: got %v, want %v", tt.config, got, tt.want)
		}
	}
}

// A system that enforces SELinux relabels itself after a guess, which costs a boot, and no other
// system does.
func TestRelabel(t *testing.T) {
	const enforces, permits = "SELINUX=enforcing\n", "SELINUX=permissive\n"
	tests := []struct {
		name, config string
		want         bool
	}{
		{"no SELinux", "", false},
		{"enforcing", enforces, true},
		{"permissive", permits, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := rootfs(t, "etc/hostname", "debian\n")
			if tt.config != "" {
				root = rootfs(t, "etc/hostname", "rocky\n", "etc/selinux/config", tt.config)
			}
			if _, err := Plant(root, peers.Order{MachineID: "m-1"}); err != nil {
				t.Fatal(err)
			}
			if _, err := root.Stat(relabel); (err == nil) != tt.want {
				t.Errorf("relabel mark: got %v, want %v", err, tt.want)
			}
		})
	}
	t.Run("no guess", func(t *testing.T) {
		root := rootfs(t, "etc/selinux/config", enforces)
		if err := (&labels{root: root}).scheduleRelabel(); err != nil {
			t.Fatal(err)
		}
		if _, err := root.Stat(relabel); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("relabel mark: got %v, want none", err)
		}
	})
}

func TestLabels(t *testing.T) {
	root := rootfs(t, "etc/hostname", "rocky\n", "etc/fstab", "", "etc/selinux/config", "SELINUX=enforcing\n",
		"etc/machine-id", "1234\n", "etc/ssh/ssh_host_rsa_key", "old", "etc/ssh/moduli", "",
		"root/.ssh/authorized_keys", "ssh-rsa AAAA", "var/lib/", "")
	for name, label := range map[string]string{".": "root_t", "etc": "etc_t", "etc/ssh": "etc_t",
		"etc/hostname": "hostname_etc_t", "etc/machine-id": "machineid_t", "etc/ssh/ssh_host_rsa_key": "sshd_key_t",
		"root/.ssh/authorized_keys": "ssh_home_t", "var/lib": "var_lib_t"} {
		if err := unix.Setxattr(filepath.Join(root.Name(), name), labelKey, []byte("system_u:object_r:"+label+":s0\x00"),
			0); err != nil {
			t.Skipf("cannot set labels here: %v", err)
		}
	}
	if _, err := Plant(root, order()); err != nil {
		t.Fatal(err)
	}
	if err := Fstab(root, nil); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"etc/hostname": "hostname_etc_t", "etc/machine-id": "machineid_t", "etc/ssh/ssh_host_ed25519_key": "sshd_key_t",
		"etc/ssh/ssh_host_ed25519_key.pub": "etc_t", "root/.ssh/authorized_keys": "ssh_home_t",
		"var/lib/cloud": "var_lib_t", dir: "var_lib_t", dir +
			"/user-data": "var_lib_t", "etc/fstab": "etc_t", "etc/ssh/moduli": "",
	}
	got := map[string]string{}
	for name, label := range want {
		if got[name] = labelOf(root, name); label != "" {
			want[name] = "system_u:object_r:" + label + ":s0\x00"
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if st, err := os.Stat(filepath.Join(root.Name(), relabel)); err != nil || st.Size() != 0 {
		t.Errorf("%s: %v", relabel, err)
	}
}
