// Package keyfile reads key files: for TLS, gossip and the encryption of secrets.
//
// It owns two rules. A key that others can read is refused. A name like
// "credential:tls-key" is a credential that systemd passes to the service. It must not know
// the purpose of the keys, and it never shows their contents.
package keyfile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// credentialPrefix begins the names of systemd credentials (systemd.exec(5),
// LoadCredential=).
const credentialPrefix = "credential:" //nolint:gosec // a prefix, not a secret

// maxSize is more than any file with keys or certificates needs.
const maxSize = 1 << 20

// Resolve returns the path of a file. "credential:NAME" is NAME in $CREDENTIALS_DIRECTORY.
// Any other name is already a path.
func Resolve(name string) (string, error) {
	id, ok := strings.CutPrefix(name, credentialPrefix)
	if !ok {
		return name, nil
	}
	dir := os.Getenv("CREDENTIALS_DIRECTORY")
	switch {
	case id == "" || id != filepath.Base(id) || id == "..":
		return "", fmt.Errorf("read %s: %q is not the name of a credential", name, id)
	case dir == "":
		return "", fmt.Errorf("read %s: CREDENTIALS_DIRECTORY is not set: "+
			"systemd sets it for a service with LoadCredential=%s:/path",
			name, id)
	}
	return filepath.Join(dir, id), nil
}

// Read reads a public file, such as a certificate.
func Read(name string) ([]byte, error) {
	path, err := Resolve(name)
	if err != nil {
		return nil, err
	}
	return read(path, false)
}

// ReadPrivate reads a private file. It returns an error if the mode lets the group or
// others read or write it. The modes of credentials are not checked: systemd restricts
// their directory to the service and grants access by ACLs, which appear as group bits.
func ReadPrivate(name string) ([]byte, error) {
	path, err := Resolve(name)
	if err != nil {
		return nil, err
	}
	return read(path, path == name)
}

func read(path string, private bool) (_ []byte, err error) {
	kind := "file"
	if private {
		kind = "key file"
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", kind, err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat() // of the open file, which cannot be exchanged in between
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", kind, err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("read %s %s: it is not a regular file", kind, path)
	}
	if mode := info.Mode().Perm(); private && mode&0o077 != 0 {
		return nil, fmt.Errorf("read key file %s: others can read it (mode %04o): run: chmod 600 %s", path, mode, path)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	if err != nil {
		return nil, fmt.Errorf("read %s %s: %w", kind, path, err)
	}
	if len(b) > maxSize {
		return nil, fmt.Errorf("read %s %s: it is larger than %d bytes", kind, path, maxSize)
	}
	return b, nil
}
