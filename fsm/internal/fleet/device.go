package fleet

import (
	"bytes"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/lex"
	"github.com/holdfast-metal/holdfast/fsm/internal/refusal"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Notes of providers on BMCs and hosts: the driver that worked, the open session, refused
// logins, the host key first seen. They must survive a change of the leader. Otherwise the
// next leader would overload the BMCs, and trust any host key.

// Limits of a note, in bytes.
const (
	maxDeviceKey  = 320
	MaxDeviceNote = 4 << 10
)

// HostNote returns the key of the note on a machine's host.
func HostNote(machine string) string { return "host/" + machine }

// NoteDevice stores or deletes a note. A note marked as first is refused if there is another
// one.
func NoteDevice(t *core.Tx, c *internalv1.NoteDevice) *refusal.Error {
	if !lex.Printable(c.GetKey(), maxDeviceKey) {
		return refusal.InvalidField("key", "is not 1 to %d visible characters", maxDeviceKey)
	}
	if n := len(c.GetValue()); n > MaxDeviceNote {
		return refusal.InvalidField("value", "has %d bytes, at most %d are allowed", n, MaxDeviceNote)
	}
	old, ok := t.Devices.Get(c.GetKey())
	switch {
	case ok && bytes.Equal(old.GetValue(), c.GetValue()):
		return nil
	case ok && c.GetFirst():
		return refusal.New(refusal.AlreadyExists, refusal.ReasonDeviceNoted, "another note of %q is kept since %s",
			c.GetKey(), old.GetUpdatedAt().AsTime().Format("2006-01-02T15:04:05Z"))
	case len(c.GetValue()) == 0:
		t.Devices.Delete(c.GetKey())
		return nil
	}
	t.Devices.Put(&internalv1.DeviceNote{Key: c.GetKey(), Value: c.GetValue(), UpdatedAt: t.Now})
	return nil
}

// ForgetHost deletes the note on a host that was installed again or removed.
func ForgetHost(t *core.Tx, machine string) {
	if _, ok := t.Devices.Get(HostNote(machine)); ok {
		t.Devices.Delete(HostNote(machine))
	}
}

// DeviceNote returns the note under a key, or nil.
func (v *View) DeviceNote(key string) []byte {
	n, _ := v.s.Devices.Get(key)
	return n.GetValue()
}
