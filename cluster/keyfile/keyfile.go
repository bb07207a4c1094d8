// Package keyfile reads files that hold keys: of TLS, of gossip, of sealed secrets.
//
// It owns two rules: a key that others can read is refused, and a name like "credential:tls-key" is
// a credential that systemd hands to the service. It must not know what the keys are for, and it
// never shows what is in them.
package keyfile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// credentialPrefix begins the names of systemd credentials (systemd.exec(5), LoadCredential=).
const credentialPrefix = "credential:" //nolint:gosec // a prefix, and no secret

// maxSize is more than any file with keys or certificates needs.
const maxSize = 1 << 20

// Resolve returns the path of a file. "credential:NAME" is NAME in $CREDENTIALS_DIRECTORY, anything
// else is a path already.
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
		return "", fmt.Errorf("read %s: CREDENTIALS_DIRECTORY is not set: systemd sets it for a service with LoadCredential=%s:/path", name, id)
	}
	return filepath.Join(dir, id), nil
}

// Read reads a file that anybody may see, such as a certificate.
func Read(name string) ([]byte, error) {
	path, err := Resolve(name)
	if err != nil {
		return nil, err
	}
	return read(path, false)
}

// ReadPrivate reads a file that nobody else may see. It refuses one whose mode lets the group or
// others read or write it. Credentials are not judged by their mode: systemd keeps their directory
// to the service, and grants access by ACLs, which show as group bits.
func ReadPrivate(name string) ([]byte, error) {
	path, err := Resolve(name)
	if err != nil {
		return nil, err
	}
	return read(path, path == name)
}

func read(path string, private bool) (_ []byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read key file: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat() // of the file that is open: nobody can exchange it in between
	if err != nil {
		return nil, fmt.Errorf("read key file: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("read key file %s: it is not a regular file", path)
	}
	if mode := info.Mode().Perm(); private && mode&0o077 != 0 {
		return nil, fmt.Errorf("read key file %s: others can read it (mode %04o): run: chmod 600 %s", path, mode, path)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	if err != nil {
		return nil, fmt.Errorf("read key file %s: %w", path, err)
	}
	if len(b) > maxSize {
		return nil, fmt.Errorf("read key file %s: it is larger than %d bytes", path, maxSize)
	}
	return b, nil
}
