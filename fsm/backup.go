package fsm

import (
	"io"

	"github.com/holdfast-metal/holdfast/fsm/internal/backup"
	"github.com/holdfast-metal/holdfast/fsm/internal/runlog"
	"github.com/holdfast-metal/holdfast/fsm/internal/table"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// BackupInfo is the part of a snapshot file's description that is not in the state.
type BackupInfo = backup.Info

// SumBackup returns an error if the checksum of a snapshot file is wrong. It does not decode the
// file, so it is fast.
func SumBackup(file []byte) error { return backup.CheckSum(file) }

// WriteBackup writes a snapshot file.
func (s *Snapshot) WriteBackup(w io.Writer, info backup.Info) error {
	return backup.Write(s.state, w, info)
}

// TableCount is the number of records in a table.
type TableCount = table.Count

// Backup is a snapshot file that was read to its end. Its checksum is right, and every record
// in it decodes.
type Backup struct {
	Header *internalv1.BackupHeader
	file   *backup.File
}

func newBackup(f *backup.File) *Backup { return &Backup{Header: f.Header, file: f} }

// Tables returns the number of records in each table, in the order of the file.
func (b *Backup) Tables() []table.Count { return b.file.Tables }

// View returns the state in the file.
func (b *Backup) View() *View {
	return newView(b.file.State, runlog.NewCodec(), &backup.Cache{})
}

// ReadBackup reads a snapshot file. It fails if the file is damaged, truncated or written by
// a newer build.
func ReadBackup(r io.Reader) (*Backup, error) {
	f, err := backup.Read(r, true)
	if err != nil {
		return nil, err
	}
	return newBackup(f), nil
}

// CheckedBackup describes a snapshot file that was read to its end.
type CheckedBackup struct {
	Header *internalv1.BackupHeader
	Tables []table.Count // in the order of the file
}

// CheckBackup returns an error whenever ReadBackup does, but keeps no records. It takes a
// third of the time and little memory.
func CheckBackup(r io.Reader) (*CheckedBackup, error) {
	f, err := backup.Read(r, false)
	if err != nil {
		return nil, err
	}
	return &CheckedBackup{Header: f.Header, Tables: f.Tables}, nil
}

// ReadStage reads the staged snapshot. While the caller keeps it, a restore need not read it
// again.
func (v *View) ReadStage(restoreID string, chunks uint32) (*Backup, *Error) {
	f, err := backup.Staged(v.state, v.stage, restoreID, chunks)
	if err != nil {
		return nil, err
	}
	return newBackup(f), nil
}

// CheckRestore returns the staged snapshot, or the reason why it cannot be restored now.
// While the caller keeps it, a restore need not read it again.
func (v *View) CheckRestore(c *internalv1.RestoreBackup) (*Backup, *Error) {
	f, err := backup.Restorable(v.state, v.stage, c)
	if err != nil {
		return nil, err
	}
	return newBackup(f), nil
}
