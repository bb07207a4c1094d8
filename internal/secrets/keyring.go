package secrets

import (
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
	lookEvery  = 5 * time.Second // between two looks at the file
	lookAtMost = time.Second     // between two looks because a key was not there
)

// Keyring is the keys of a file. It is safe for concurrent use. One without a file, and a nil one,
// have no key.
type Keyring struct {
	file string
	log  *slog.Logger
	keys atomic.Pointer[[]*key] // the primary one first; nil: none

	mu      sync.Mutex
	looked  time.Time
	seen    [sha256.Size]byte // of the file in use
	trouble string            // that the last look had
	changed chan struct{}
}

// Open reads a keys file: a path, or "credential:NAME" for one that systemd hands over. It fails
// when others can read the file, and when something in it is no key. An empty name makes a keyring
// without a key. Log gets reloads; nil: none.
func Open(file string, log *slog.Logger) (*Keyring, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
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
	k.seen, k.looked = sha256.Sum256(b), time.Now()
	k.keys.Store(&keys)
	return k, nil
}

// Run reads the file again when it changes, until ctx ends.
func (k *Keyring) Run(ctx context.Context) error {
	if k.File() == "" {
		<-ctx.Done()
		return nil
	}
	t := time.NewTicker(lookEvery)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			k.look(0)
		case <-ctx.Done():
			return nil
		}
	}
}

// look reads the file, unless that was done within the time that is given. A file that cannot be
// used leaves the keys of the last one in place.
func (k *Keyring) look(atMost time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	if now.Sub(k.looked) < atMost {
		return
	}
	k.looked = now
	b, err := keyfile.ReadPrivate(k.file)
	sum := sha256.Sum256(b)
	if err == nil && sum == k.seen {
		k.trouble = ""
		return
	}
	var keys []*key
	if err == nil {
		keys, err = parseKeys(b)
	}
	if err != nil {
		if k.trouble != err.Error() {
			k.log.Error("the secrets keys cannot be read: the last ones stay in use until the file is mended", "file", k.file, "error", err)
		}
		k.trouble = err.Error()
		return
	}
	k.seen, k.trouble = sum, ""
	k.keys.Store(&keys)
	k.log.Info("secrets keys reloaded", "file", k.file, "primary", keys[0].id, "keys", k.IDs())
	close(k.changed)
	k.changed = make(chan struct{})
}

// File returns the name of the file; empty if there is none.
func (k *Keyring) File() string {
	if k == nil {
		return ""
	}
	return k.file
}

// Primary returns the id of the key that seals; ok is false if there is no key.
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

// Has reports whether a key is here. Before it says no it looks at the file once more.
func (k *Keyring) Has(id string) bool { return k.find(id) != nil }

// Changed returns a channel that is closed when other keys come into use.
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
		k.look(lookAtMost)
		key = get()
	}
	return key
}
