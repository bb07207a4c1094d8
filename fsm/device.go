package fsm

import (
	"bytes"

	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// What providers learn of BMCs and hosts (the driver that worked, the session that is open, refused
// logins, the key that a host was first seen with) must not be lost with a leader: the next one
// would stampede, or take any key for the right one.

const (
	maxDeviceKey  = 320
	maxDeviceNote = 4 << 10 // bytes
)

func deviceSchema() *schema[*internalv1.DeviceNote] {
	return &schema[*internalv1.DeviceNote]{
		kind: internalv1.SnapshotRecord_DEVICE_NOTES,
		key:  (*internalv1.DeviceNote).GetKey,
	}
}

// hostNote is the key of what is known of a machine's host.
func hostNote(machine string) string { return "host/" + machine }

// noteDevice keeps a note, or removes it. One that must be the first is refused when there is
// another.
func (t *tx) noteDevice(c *internalv1.NoteDevice) *Error {
	if !printable(c.GetKey(), maxDeviceKey) {
		return invalid("key", "is not 1 to %d visible characters", maxDeviceKey)
	}
	if n := len(c.GetValue()); n > maxDeviceNote {
		return invalid("value", "has %d bytes, at most %d are allowed", n, maxDeviceNote)
	}
	old, ok := t.devices.get(c.GetKey())
	switch {
	case ok && bytes.Equal(old.GetValue(), c.GetValue()):
		return nil
	case ok && c.GetFirst():
		return refuse(AlreadyExists, ReasonDeviceNoted, "another note of %q is kept since %s", c.GetKey(), old.GetUpdatedAt().AsTime().Format("2006-01-02T15:04:05Z"))
	case len(c.GetValue()) == 0:
		t.devices.delete(c.GetKey())
		return nil
	}
	t.devices.put(&internalv1.DeviceNote{Key: c.GetKey(), Value: c.GetValue(), UpdatedAt: t.now})
	return nil
}

// forgetHost forgets what a host was known by: it is installed anew, or gone.
func (t *tx) forgetHost(machine string) {
	if _, ok := t.devices.get(hostNote(machine)); ok {
		t.devices.delete(hostNote(machine))
	}
}

// DeviceNote returns what is kept under a key; nil if there is nothing.
func (v *View) DeviceNote(key string) []byte {
	n, _ := v.devices.get(key)
	return n.GetValue()
}
