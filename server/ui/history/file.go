package history

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

const (
	fileName = "charts.bin"
	// saveEvery is the interval between two writes. A peer that dies loses as much.
	saveEvery = 5 * time.Minute
	// maxAhead is how far the samples may be ahead of the clock, which may have been set back.
	maxAhead = 10 * time.Minute
)

// load reads the file, if there is one. If that fails, the charts begin again: they are not
// worth a peer that does not start.
func (h *History) load() {
	if h.cfg.Dir == "" {
		return
	}
	name := filepath.Join(h.cfg.Dir, fileName)
	err := h.read(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		h.cfg.Logger.Warn("cannot read the saved charts: they begin again", "file", name, "error", err)
	}
}

func (h *History) read(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	s, err := decode(f)
	if err != nil {
		return err
	}
	return h.restore(s)
}

// restore replaces the samples by saved ones.
func (h *History) restore(s saved) error {
	latest := h.now().Add(maxAhead)
	late := func(l Leader) bool { return l.At.After(latest) }
	if len(s.Leaders) > maxLeaders || slices.ContainsFunc(s.Leaders, late) || s.Until.After(latest) {
		return fmt.Errorf("load %d leaders, and runs until %v: want at most %d, and no time after %v",
			len(s.Leaders), s.Until, maxLeaders, latest)
	}
	if err := h.bmcs.Load(s.BMCs, latest); err != nil {
		return err
	}
	if err := h.fixed.Load(s.Fixed, latest); err != nil { // it must have the runs up to the cursor
		return err
	}
	h.states.cursor, h.states.until = s.Cursor, s.Until
	h.mu.Lock()
	defer h.mu.Unlock()
	h.leaders = s.Leaders
	return nil
}

// save writes the file. It logs the first of several failures in a row.
func (h *History) save() {
	if h.cfg.Dir == "" {
		return
	}
	name := filepath.Join(h.cfg.Dir, fileName)
	err := h.write(name)
	if err != nil && !h.failed {
		h.cfg.Logger.Warn("cannot save the charts: a restart loses their newest part", "file", name, "error", err)
	}
	h.failed = err != nil
}

func (h *History) write(name string) error {
	data, err := encode(h.saved())
	if err != nil {
		return err
	}
	part := name + ".part"
	if err = writeSync(part, data); err == nil {
		err = os.Rename(part, name)
	}
	if err != nil {
		_ = os.Remove(part) // it would take space on a full disk
	}
	return err
}

func (h *History) saved() saved {
	h.mu.Lock()
	defer h.mu.Unlock()
	return saved{Fixed: h.fixed.Save(), BMCs: h.bmcs.Save(), Leaders: slices.Clone(h.leaders),
		Cursor: h.states.cursor, Until: h.states.until}
}

// writeSync writes a file (0600), and returns once the disk has it.
func writeSync(name string, data []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if _, err = f.Write(data); err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
