package secrets

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-metal/holdfast/cluster/keyfile"
)

const (
	pollEvery = 5 * time.Second // interval of reads of the file
	minPause  = time.Second     // between two reads because of a missing key
)

// Keyring holds the keys of a file. It is safe for concurrent use. A nil Keyring, or one
// without a file, has no keys.
type Keyring struct {
	file string
	log  *slog.Logger
	keys atomic.Pointer[[]*key] // the primary key first; nil if there are none

	mu      sync.Mutex
	readAt  time.Time
	hash    [sha256.Size]byte // of the file in use
	failure string            // error of the last read
	changed chan struct{}
}

// Open reads a keys file. file is a path, or "credential:NAME" for a systemd credential.
// Open fails if other users can read the file or if it is malformed. If file is empty, the
// keyring has no keys. Reloads are logged to log, which may be nil.
func Open(file string, log *slog.Logger) (*Keyring, error) {
	log = cmp.Or(log, slog.New(slog.DiscardHandler))
	k := &Keyring{file: file, log: log, changed: make(chan struct{})}
	if file == "" {
		return k, nil
	}
	b, err := keyfile.ReadPrivate(file)
	if err != nil {
		return nil, fmt.Errorf("open secrets keys: %w", err)
	}
	keys, err := parseKeys(b)
	if err != nil {
		return nil, fmt.Errorf("open secrets keys: read %s: %w", file, err)
	}
	k.hash, k.readAt = sha256.Sum256(b), time.Now()
	k.keys.Store(&keys)
	return k, nil
}

// Run reloads the file when it changes, until ctx ends.
func (k *Keyring) Run(ctx context.Context) error {
	if k.File() == "" {
		<-ctx.Done()
		return nil
	}
	t := time.NewTicker(pollEvery)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			k.reload(0)
		case <-ctx.Done():
			return nil
		}
	}
}

// reload reads the file, unless it was read less than pause ago. If the file is invalid, the
// current keys stay in use.
func (k *Keyring) reload(pause time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	if now.Sub(k.readAt) < pause {
		return
	}
	k.readAt = now
	b, err := keyfile.ReadPrivate(k.file)
	sum := sha256.Sum256(b)
	if err == nil && sum == k.hash {
		k.failure = ""
		return
	}
	var keys []*key
	if err == nil {
		keys, err = parseKeys(b)
	}
	if err != nil {
		if k.failure != err.Error() {
			k.log.Error("secrets keys file is invalid, keeping the current keys until it is fixed",
				"file", k.file, "error", err)
		}
		k.failure = err.Error()
		return
	}
	k.hash, k.failure = sum, ""
	k.keys.Store(&keys)
	k.log.Info("secrets keys reloaded", "file", k.file, "primary", keys[0].id, "keys", k.IDs())
	close(k.changed)
	k.changed = make(chan struct{})
}

// File returns the path of the file, or "" if there is none.
func (k *Keyring) File() string {
	if k == nil {
		return ""
	}
	return k.file
}

// Primary returns the id of the key used for sealing. ok is false if there is no key.
func (k *Keyring) Primary() (id string, ok bool) {
	if p := k.primary(); p != nil {
		return p.id, true
	}
	return "", false
}

// IDs returns the ids of all keys, the primary one first.
func (k *Keyring) IDs() []string {
	var ids []string
	for _, key := range k.all() {
		ids = append(ids, key.id)
	}
	return ids
}

// Has reports whether a key is present. If it is not, the file is read again first.
func (k *Keyring) Has(id string) bool { return k.find(id) != nil }

// Changed returns a channel that is closed when the keys change.
func (k *Keyring) Changed() <-chan struct{} {
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.changed
}

func (k *Keyring) all() []*key {
	if k == nil {
		return nil
	}
	if keys := k.keys.Load(); keys != nil {
		return *keys
	}
	return nil
}

func (k *Keyring) primary() *key {
	if keys := k.all(); len(keys) > 0 {
		return keys[0]
	}
	return nil
}

func (k *Keyring) find(id string) *key {
	get := func() *key {
		keys := k.all()
		if i := slices.IndexFunc(keys, func(key *key) bool { return key.id == id }); i >= 0 {
			return keys[i]
		}
		return nil
	}
	key := get()
	if key == nil && k.File() != "" {
		k.reload(minPause)
		key = get()
	}
	return key
}
