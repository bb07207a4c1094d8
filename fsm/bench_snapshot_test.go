package fsm_test

import (
	"bytes"
	"io"
	"testing"

	"github.com/holdfast-metal/holdfast/fsm"
)

// BenchmarkSnapshot measures the cost of taking, writing and reading the state of a fleet, as
// Raft keeps it and as a snapshot file.
func BenchmarkSnapshot(b *testing.B) {
	const size = 100_000
	p := fleet(b, size)
	s, err := p.Snapshot()
	if err != nil {
		b.Fatal(err)
	}
	var raft, file bytes.Buffer
	if _, err := s.WriteTo(&raft); err != nil {
		b.Fatal(err)
	}
	if err := s.WriteBackup(&file, fsm.BackupInfo{}); err != nil {
		b.Fatal(err)
	}
	measure := func(name string, bytes int, do func() error) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(bytes))
			for b.Loop() {
				if err := do(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/size, "ns/machine")
		})
	}
	b.Run("take", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			p.Index++
			p.Observe(p.Index, p.Term) // or the view would be shared
			if _, err := p.Snapshot(); err != nil {
				b.Fatal(err)
			}
		}
	})
	measure("write", raft.Len(), func() error { _, err := s.WriteTo(io.Discard); return err })
	measure("restore", raft.Len(), func() error { return fsm.New().Restore(bytes.NewReader(raft.Bytes())) })
	measure("file/write", file.Len(), func() error { return s.WriteBackup(io.Discard, fsm.BackupInfo{}) })
	measure("file/check", file.Len(),
		func() error { _, err := fsm.CheckBackup(bytes.NewReader(file.Bytes())); return err })
	measure("file/read", file.Len(), func() error { _, err := fsm.ReadBackup(bytes.NewReader(file.Bytes())); return err })
}
