package gossip

import (
	"bytes"
	"io"
	"log/slog"

	"github.com/holdfast-metal/holdfast/cluster/internal/liblog"
)

// lines receives the lines of memberlist. The library says only there that a packet or connection
// was refused. Anybody who reaches the port can cause these lines, so one a minute is logged, and
// all are counted. A test sends each kind, because the texts are the library's.
type lines struct {
	next  io.Writer
	log   *slog.Logger
	count func()
	pace  liblog.Pace
}

func newLines(cfg *Config) *lines {
	l := cfg.Logger.With("component", "gossip")
	count := cfg.Refused
	if count == nil {
		count = func() {}
	}
	return &lines{next: liblog.Lines(l), log: l, count: count}
}

// Write implements io.Writer.
func (w *lines) Write(line []byte) (int, error) {
	if !refused(line) {
		return w.next.Write(line)
	}
	w.count()
	if before, due := w.pace.Due(); due {
		w.log.Warn("gossip refused: want packets of the peers of this cluster, with its key",
			"cause", string(bytes.TrimSpace(line)), "like_it_before", before)
	}
	return len(line), nil
}

// refused reports whether a line is about something received that cannot be decrypted or decoded.
// Such a line names the sender. Those about messages that were decoded do so, too.
func refused(line []byte) bool {
	if bytes.Contains(line, []byte(": Got invalid checksum for UDP packet")) { // names no sender
		return true
	}
	if bytes.HasPrefix(line, []byte("[DEBUG]")) || !bytes.Contains(line, []byte(" from=")) {
		return false
	}
	for _, decoded := range []string{
		": Failed to send ", ": Failed to forward ", ": Failed to push ", ": Failed push/pull merge",
		": Failed to receive user message", ": Got ping for unexpected node", ": handler queue full",
	} {
		if bytes.Contains(line, []byte(decoded)) {
			return false
		}
	}
	return true
}
