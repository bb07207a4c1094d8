package seed

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFstab(t *testing.T) {
	mounts := []Mount{{"UUID=1", "/", "ext4", "errors=remount-ro", 1},
		{"UUID=2", "/boot/efi", "vfat", "umask=0077,nofail", 2}}
	const ours = "# written by the Holdfast installer\nUUID=1 / ext4 errors=remount-ro 0 1\nUUID=2 /boot/efi vfat " +
		"umask=0077,nofail 0 2\n"
	tests := []struct{ name, old, want string }{
		{"none", "", ours},
		{"of another machine", "# old\nUUID=9 / ext4 rw 0 1\nLABEL=x /home ext4 rw 0 2\n/dev/sda3 none swap sw 0 " +
			"0\n/swapfile none swap sw 0 0\nPARTUUID=\"3\" /boot ext2 rw 0 2\n", ours},
		{"diskless file systems", "tmpfs /tmp tmpfs size=1g 0 0\nnas:/home /home nfs rw 0 0\noverlay / overlay rw 0 0\n\n",
			ours + "tmpfs /tmp tmpfs size=1g 0 0\nnas:/home /home nfs rw 0 0\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.Mkdir(filepath.Join(dir, "etc"), 0o755); err != nil {
				t.Fatal(err)
			}
			if tt.old != "" {
				if err := os.WriteFile(filepath.Join(dir, "etc/fstab"), []byte(tt.old), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			root, err := os.OpenRoot(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = root.Close() }()
			if err := Fstab(root, mounts); err != nil {
				t.Fatal(err)
			}
			got, err := root.ReadFile("etc/fstab")
			if diff := cmp.Diff(tt.want, string(got)); diff != "" || err != nil {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}
