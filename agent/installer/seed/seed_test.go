package seed

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"

	"github.com/holdfast-metal/holdfast/agent/installer/peers"
)

// rootfs creates a root file system of alternating names and texts. A name that ends with a slash
// is a directory.
func rootfs(t *testing.T, files ...string) *os.Root {
	t.Helper()
	dir := t.TempDir()
	for i := 0; i < len(files); i += 2 {
		path := filepath.Join(dir, files[i])
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(files[i], "/") {
			if err := os.MkdirAll(path, 0o755); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := os.WriteFile(path, []byte(files[i+1]), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	return root
}

func order() peers.Order {
	return peers.Order{
		MachineID: "m-1", RunID: "r-1", Attempt: 2, Hostname: "node-1",
		AuthorizedKeys: []string{"ssh-ed25519 AAAA operator\n"},
		CloudInit:      peers.CloudInit{UserData: "#cloud-config\nusers: [default]\n", NetworkConfig: "version: 2\n"},
	}
}

func TestPlant(t *testing.T) {
	root := rootfs(t, "etc/hostname", "debian\n", "etc/cloud/", "", "etc/machine-id", "0123456789abcdef\n",
		"root/.ssh/authorized_keys", "ssh-rsa BBBB golden",
		"etc/ssh/ssh_host_rsa_key", "old", "etc/ssh/ssh_host_rsa_key.pub", "old", "etc/ssh/sshd_config", "kept")
	keys, err := Plant(root, order())
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := fs.ReadFile(root.FS(), name)
		st, _ := d.Info()
		got[name] = st.Mode().String() + " " + string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	private := strings.TrimPrefix(got["etc/ssh/ssh_host_ed25519_key"], "-rw------- ")
	signer, err := ssh.ParsePrivateKey([]byte(private))
	if err != nil {
		t.Fatalf("read the host key: %v", err)
	}
	if want := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signer.PublicKey()))); len(keys) != 1 || keys[0] != want {
		t.Errorf("got reported key %q, want %q", keys, want)
	}
	delete(got, "etc/ssh/ssh_host_ed25519_key")
	want := map[string]string{
		"etc/hostname":                              "-rw-r--r-- node-1\n",
		"etc/machine-id":                            "-r--r--r-- ",
		"etc/ssh/sshd_config":                       "-rw-r--r-- kept",
		"etc/ssh/ssh_host_ed25519_key.pub":          "-rw-r--r-- " + keys[0] + "\n",
		"etc/cloud/cloud.cfg.d/99-holdfast.cfg":     "-rw-r--r-- " + cloudConfig,
		"root/.ssh/authorized_keys":                 "-rw------- ssh-rsa BBBB golden\nssh-ed25519 AAAA operator\n",
		"var/lib/cloud/seed/nocloud/meta-data":      "-rw------- instance-id: \"m-1-r-1-2\"\nlocal-hostname: \"node-1\"\n",
		"var/lib/cloud/seed/nocloud/user-data":      "-rw------- #cloud-config\nusers: [default]\n",
		"var/lib/cloud/seed/nocloud/network-config": "-rw------- version: 2\n",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	// Every machine has its own key.
	again, err := Plant(rootfs(t, "etc/", ""), peers.Order{MachineID: "m-2"})
	if err != nil || again[0] == keys[0] {
		t.Errorf("next machine: got %q, %v", again, err)
	}
}

func TestPlantRefuses(t *testing.T) {
	if _, err := Plant(rootfs(t, "boot/vmlinuz", "x"), order()); err == nil ||
		!strings.Contains(err.Error(), "not a root file system") {
		t.Errorf("EFI system partition: got %v", err)
	}
	// An image cannot make the installer write to its own files.
	outside := filepath.Join(t.TempDir(), "victim")
	root := rootfs(t, "etc/", "")
	if err := os.Symlink(filepath.Dir(outside), filepath.Join(root.Name(), "var")); err != nil {
		t.Fatal(err)
	}
	if _, err := Plant(root, order()); err == nil {
		t.Error("link to the outside: got no error")
	}
	if entries, err := os.ReadDir(filepath.Dir(outside)); err != nil || len(entries) != 0 {
		t.Errorf("got files outside: %v, %v", entries, err)
	}
}
