package gossip

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/holdfast-metal/holdfast/cluster/keyfile"
)

// KeyInterval is the time between two checks of the key file.
const KeyInterval = 5 * time.Second

// keyring are the gossip keys of a file, one per line. The first one encrypts; all of
// them decrypt.
type keyring struct {
	file  string
	ring  *memberlist.Keyring
	log   *slog.Logger
	every time.Duration

	data   []byte // contents of the file
	logged string // the last logged error of the file
}

// openKeys reads the key file.
func openKeys(file string, every time.Duration, log *slog.Logger) (*keyring, error) {
	data, err := keyfile.ReadPrivate(file)
	if err != nil {
		return nil, err
	}
	keys, err := parseKeys(data)
	if err != nil {
		return nil, fmt.Errorf("read gossip keys %s: %w", file, err)
	}
	ring, err := memberlist.NewKeyring(keys, keys[0])
	if err != nil {
		return nil, fmt.Errorf("read gossip keys %s: %w", file, err)
	}
	return &keyring{file: file, ring: ring, log: log, every: every, data: data}, nil
}

// parseKeys parses keys in base64, one per line. Empty lines and lines that begin
// with # are ignored. No error shows the contents of a line.
func parseKeys(data []byte) ([][]byte, error) {
	var keys [][]byte
	lines := bufio.NewScanner(bytes.NewReader(data))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		key, err := base64.StdEncoding.DecodeString(line)
		if err != nil {
			return nil, fmt.Errorf("line %d is not base64: make a key with: holdfast gossip keygen", n)
		}
		if memberlist.ValidateKey(key) != nil {
			return nil, fmt.Errorf("line %d: the key has %d bytes, want 16, 24 or 32: "+
				"make one with: holdfast gossip keygen",
				n, len(key))
		}
		if !slices.ContainsFunc(keys, func(k []byte) bool { return bytes.Equal(k, key) }) {
			keys = append(keys, key)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, errors.New("a line is too long")
	}
	if len(keys) == 0 {
		return nil, errors.New("the file contains no key: make one with: holdfast gossip keygen")
	}
	return keys, nil
}

// run reloads the keys whenever the file has changed, until ctx ends.
func (k *keyring) run(ctx context.Context) error {
	if k == nil {
		return nil
	}
	t := time.NewTicker(k.every)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			k.reload()
		case <-ctx.Done():
			return nil
		}
	}
}

// reload keeps the current keys if the file cannot be used, and logs the error once.
func (k *keyring) reload() {
	data, err := keyfile.ReadPrivate(k.file)
	if err == nil && bytes.Equal(data, k.data) {
		k.logged = ""
		return
	}
	var keys [][]byte
	if err == nil {
		keys, err = parseKeys(data)
	}
	if err == nil {
		err = k.use(keys)
	}
	switch {
	case err == nil:
		k.data, k.logged = data, ""
		k.log.Info("gossip keys reloaded", "file", k.file, "keys", len(keys))
	case err.Error() != k.logged:
		k.logged = err.Error()
		k.log.Error("gossip keys not usable, keeping the last good ones until the file is fixed",
			"file", k.file, "error", err)
	}
}

// use replaces the keys of the ring. It adds the new keys before the first of them
// encrypts, and removes the old keys after that.
func (k *keyring) use(keys [][]byte) error {
	for _, key := range keys {
		if err := k.ring.AddKey(key); err != nil {
			return err
		}
	}
	// The reverse order puts them into the order of the file, before the keys to remove.
	// RemoveKey changes the list while others read it, unless it removes the last key.
	for _, key := range slices.Backward(keys) {
		if err := k.ring.UseKey(key); err != nil {
			return err
		}
	}
	for _, key := range slices.Backward(slices.Clone(k.ring.GetKeys())) {
		if slices.ContainsFunc(keys, func(kept []byte) bool { return bytes.Equal(kept, key) }) {
			continue
		}
		if err := k.ring.RemoveKey(key); err != nil {
			return err
		}
	}
	return nil
}
