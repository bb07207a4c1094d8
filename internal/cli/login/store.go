package login

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Saved is the sign-in of a context.
type Saved struct {
	Issuer   string    `json:"issuer"`
	ClientID string    `json:"client_id"`
	TokenURL string    `json:"token_url"`
	Audience string    `json:"audience"`
	Token    string    `json:"token"` // for the cluster: an access token or an ID token
	Expires  time.Time `json:"expires"`
	Refresh  string    `json:"refresh_token,omitempty"`
}

// Store is the file with the sign-in of one context.
type Store struct{ path string }

// At returns the store of a context. Contexts is the path of the file of contexts: the sign-ins of
// config.yaml are in config-logins.
func At(contexts, name string) Store {
	dir := strings.TrimSuffix(contexts, filepath.Ext(contexts)) + "-logins"
	return Store{path: filepath.Join(dir, url.PathEscape(name)+".json")}
}

// Load reads the sign-in; ok is false if there is none. A file that others can read is refused.
func (s Store) Load() (v Saved, ok bool, err error) {
	info, err := os.Stat(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return v, false, nil
	}
	if err != nil {
		return v, false, fmt.Errorf("read sign-in: %w", err)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return v, false, fmt.Errorf("read sign-in %s: others can read it (mode %04o) and it holds a token: run: chmod 600 %s",
			s.path, mode, s.path)
	}
	b, err := os.ReadFile(s.path)
	if err != nil {
		return v, false, fmt.Errorf("read sign-in: %w", err)
	}
	if json.Unmarshal(b, &v) != nil { // its error may quote the token
		return Saved{}, false, fmt.Errorf("read sign-in %s: it is damaged: run: holdfast logout", s.path)
	}
	return v, true, nil
}

// Save replaces the file atomically.
func (s Store) Save(v Saved) error {
	b, err := json.MarshalIndent(v, "", "  ") //nolint:gosec // the file is for the token, with mode 0600
	if err != nil {
		return fmt.Errorf("write sign-in: %w", err)
	}
	dir := filepath.Dir(s.path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("write sign-in: %w", err)
	}
	tmp, err := os.CreateTemp(dir, ".login-*.json") // 0600
	if err != nil {
		return fmt.Errorf("write sign-in: %w", err)
	}
	_, werr := tmp.Write(append(b, '\n'))
	if err := errors.Join(werr, tmp.Sync(), tmp.Close()); err != nil {
		return errors.Join(fmt.Errorf("write sign-in %s: %w", s.path, err), os.Remove(tmp.Name()))
	}
	if err := os.Rename(tmp.Name(), s.path); err != nil {
		return errors.Join(fmt.Errorf("write sign-in: %w", err), os.Remove(tmp.Name()))
	}
	return nil
}

// Delete deletes the sign-in, if there is one.
func (s Store) Delete() error {
	if err := os.Remove(s.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("delete sign-in: %w", err)
	}
	if err := os.Remove(s.path + ".lock"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("delete sign-in: %w", err)
	}
	return nil
}

// lock blocks until no other process refreshes the token. Many issuers accept a refresh token
// once only.
func (s Store) lock() (unlock func(), err error) {
	f, err := os.OpenFile(s.path+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock sign-in: %w", err)
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock sign-in %s: %w", s.path, err), f.Close())
	}
	return func() { _ = f.Close() }, nil
}
