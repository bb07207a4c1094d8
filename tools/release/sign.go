package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"aead.dev/minisign"
)

// readKey reads a secret key of minisign. A key that others can read is refused, as for all
// keys of a cluster.
func readKey(file, password string) (minisign.PrivateKey, error) {
	info, err := os.Stat(file)
	if err != nil {
		return minisign.PrivateKey{}, cause(err)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return minisign.PrivateKey{}, fmt.Errorf("its mode is %04o, so others can read it: run chmod 600", mode)
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return minisign.PrivateKey{}, cause(err)
	}
	if !minisign.IsEncrypted(raw) {
		var key minisign.PrivateKey
		if err := key.UnmarshalText(bytes.TrimSpace(raw)); err != nil {
			return minisign.PrivateKey{}, fmt.Errorf("%w: want a file that minisign -G has made", err)
		}
		return key, nil
	}
	if password == "" {
		return minisign.PrivateKey{}, errors.New("it is encrypted: set SIGN_PASSWORD to its password")
	}
	key, err := minisign.DecryptKey(password, bytes.TrimSpace(raw))
	if err != nil {
		return minisign.PrivateKey{}, fmt.Errorf("%w: is SIGN_PASSWORD its password?", err)
	}
	return key, nil
}

// cause returns the cause of an error of a file, whose path the caller names.
func cause(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}

// printPublicKey writes the key with which others verify the release, in the form of minisign -P.
func (r release) printPublicKey(w io.Writer) error {
	if r.key == nil {
		return errors.New("print the public key: want -sign-key")
	}
	_, err := fmt.Fprintln(w, r.key.Public())
	return err
}

// sign writes the signature of SHA256SUMS. Its trusted comment, which is signed too, names the
// version, so that nobody can offer an old release as a new one. It has no time but that of
// the commit: the same key gives the same bytes.
func (r release) sign() error {
	raw, err := os.ReadFile(filepath.Join(r.out, sumsFile))
	if err != nil {
		return fmt.Errorf("sign: %w", err)
	}
	message := minisign.NewReader(bytes.NewReader(raw)) // hashes first, as minisign does by default
	if _, err := io.Copy(io.Discard, message); err != nil {
		return fmt.Errorf("sign %s: %w", sumsFile, err)
	}
	trusted := fmt.Sprintf("holdfast %s\ttimestamp:%d\tfile:%s", r.version, r.at.Unix(), sumsFile)
	return publish(filepath.Join(r.out, signatureFile),
		message.SignWithComments(*r.key, trusted, fmt.Sprintf("signature of holdfast %s", r.version)))
}
