package keyfile_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-metal/holdfast/cluster/keyfile"
)

func TestReadPrivateChecksMode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(path, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		mode os.FileMode
		want string // "" if the file is accepted
	}{
		{0o600, ""}, {0o400, ""}, {0o640, "chmod 600 " + path}, {0o604, "chmod 600"}, {0o660, "chmod 600"},
	} {
		if err := os.Chmod(path, tc.mode); err != nil {
			t.Fatal(err)
		}
		b, err := keyfile.ReadPrivate(path)
		switch {
		case tc.want == "" && (err != nil || string(b) != "secret"):
			t.Errorf("mode %04o: got %q, %v", tc.mode, b, err)
		case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
			t.Errorf("mode %04o: got error %v, want %q in it", tc.mode, err, tc.want)
		case err != nil && strings.Contains(err.Error(), "secret"):
			t.Errorf("mode %04o: got the key in the error: %v", tc.mode, err)
		}
		if b, err := keyfile.Read(path); err != nil || string(b) != "secret" {
			t.Errorf("mode %04o: Read: got %q, %v", tc.mode, b, err)
		}
	}
}

func TestCredentials(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "tls-key"), []byte("k"), 0o440); err != nil {
		t.Fatal(err)
	}
	t.Setenv("CREDENTIALS_DIRECTORY", dir)
	if b, err := keyfile.ReadPrivate("credential:tls-key"); err != nil || string(b) != "k" {
		t.Errorf("ReadPrivate: got %q, %v, want k", b, err)
	}
	for _, name := range []string{"credential:", "credential:../x", "credential:a/b", "credential:..", "credential:none"} {
		if _, err := keyfile.ReadPrivate(name); err == nil {
			t.Errorf("ReadPrivate(%q): got no error", name)
		}
	}
	t.Setenv("CREDENTIALS_DIRECTORY", "")
	if _, err := keyfile.ReadPrivate("credential:tls-key"); err == nil ||
		!strings.Contains(err.Error(), "LoadCredential=tls-key") {
		t.Errorf("got error %v, want an explanation of systemd credentials", err)
	}
}

func TestReadOfDirectory(t *testing.T) {
	if _, err := keyfile.Read(t.TempDir()); err == nil || !strings.Contains(err.Error(), "regular") {
		t.Errorf("got error %v", err)
	}
}
