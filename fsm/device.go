package fsm

import (
	"bytes"

	"github.com/holdfast-metal/holdfast/fsm/internal/lex"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// Notes of providers on BMCs and hosts: the driver that worked, the open session, refused
// logins, the host key first seen. They must survive a change of the leader. Otherwise the
// next leader would overload the BMCs, and trust any host key.

const (
	maxDeviceKey  = 320
	maxDeviceNote = 4 << 10 // bytes
)

// hostNote returns the key of the note on a machine's host.
func hostNote(machine string) string { return "host/" + machine }

// noteDevice stores or deletes a note. A note marked as first is refused if there is another
// one.
func (t *tx) noteDevice(c *internalv1.NoteDevice) *Error {
	if !lex.Printable(c.GetKey(), maxDeviceKey) {
		return invalid("key", "is not 1 to %d visible characters", maxDeviceKey)
	}
	if n := len(c.GetValue()); n > maxDeviceNote {
		return invalid("value", "has %d bytes, at most %d are allowed", n, maxDeviceNote)
	}
	old, ok := t.devices.Get(c.GetKey())
	switch {
	case ok && bytes.Equal(old.GetValue(), c.GetValue()):
		return nil
	case ok && c.GetFirst():
		return refuse(AlreadyExists, ReasonDeviceNoted, "another note of %q is kept since %s",
			c.GetKey(), old.GetUpdatedAt().AsTime().Format("2006-01-02T15:04:05Z"))
	case len(c.GetValue()) == 0:
		t.devices.Delete(c.GetKey())
		return nil
	}
	t.devices.Put(&internalv1.DeviceNote{Key: c.GetKey(), Value: c.GetValue(), UpdatedAt: t.now})
	return nil
}

// forgetHost deletes the note on a host that was installed again or removed.
func (t *tx) forgetHost(machine string) {
	if _, ok := t.devices.Get(hostNote(machine)); ok {
		t.devices.Delete(hostNote(machine))
	}
}

// DeviceNote returns the note under a key, or nil.
func (v *View) DeviceNote(key string) []byte {
	n, _ := v.devices.Get(key)
	return n.GetValue()
}
