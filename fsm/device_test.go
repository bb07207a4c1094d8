package fsm_test

import (
	"strings"
	"testing"

	"github.com/holdfast-metal/holdfast/fsm"
	"github.com/holdfast-metal/holdfast/fsm/fsmtest"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

func TestDeviceNotes(t *testing.T) {
	p := fsmtest.NewPeer()
	note := func(key, value string, first bool) *internalv1.NoteDevice {
		return &internalv1.NoteDevice{Key: key, Value: []byte(value), First: first}
	}
	want := func(key, value string) {
		t.Helper()
		if got := string(p.View().DeviceNote(key)); got != value {
			t.Errorf("note of %s: got %q, want %q", key, got, value)
		}
	}
	want("bmc/a", "")
	do(t, p, note("bmc/a", "redfish", false))
	do(t, p, note("bmc/a", "ipmi", false))
	want("bmc/a", "ipmi")
	do(t, p, note("host/m", "key one", true))
	do(t, p, note("host/m", "key one", true)) // a retry after a lost response
	refused(t, p, note("host/m", "key two", true), fsm.AlreadyExists, fsm.ReasonDeviceNoted)
	want("host/m", "key one")
	do(t, p, note("bmc/a", "", false))
	want("bmc/a", "")
	refused(t, p, note("", "x", false), fsm.InvalidArgument, "INVALID_FIELD")
	refused(t, p, note("bmc/b", strings.Repeat("x", 4097), false), fsm.InvalidArgument, "INVALID_FIELD")
}

// A host that is installed again, or deleted, loses its old key.
func TestHostKeysAreForgotten(t *testing.T) {
	for name, tt := range map[string]struct {
		then func(p *fsmtest.Peer)
		want string
	}{
		"repaved": {func(p *fsmtest.Peer) {
			plan(t, p, "plan/x", "repave")
			start(t, p, "m", "q", "", "plan/x")
			finish(t, p, "run-q", succeeded)
		}, ""},
		"a repave that failed": {func(p *fsmtest.Peer) { // its progress is unknown
			plan(t, p, "plan/x", "repave")
			start(t, p, "m", "q", "", "plan/x")
			finish(t, p, "run-q", failed)
		}, ""},
		"repaved, and the next step has to log in": {func(p *fsmtest.Peer) {
			plan(t, p, "plan/x", "repave", "ssh")
			start(t, p, "m", "q", "", "plan/x")
			begin(t, p, "run-q")
			end(t, p, "run-q", succeeded)
		}, ""},
		"a command that failed": {func(p *fsmtest.Peer) {
			plan(t, p, "plan/x", "ssh")
			start(t, p, "m", "q", "", "plan/x")
			finish(t, p, "run-q", failed)
		}, "key"},
		"rebooted": {func(p *fsmtest.Peer) {
			start(t, p, "m", "q", "REBOOT", "")
			finish(t, p, "run-q", succeeded)
		}, "key"},
		"deleted": {func(p *fsmtest.Peer) { do(t, p, &internalv1.DeleteMachine{MachineId: "m"}) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := fsmtest.NewPeer()
			register(t, p, "m", ready)
			do(t, p, &internalv1.NoteDevice{Key: "host/m", Value: []byte("key"), First: true})
			tt.then(p)
			if got := string(p.View().DeviceNote("host/m")); got != tt.want {
				t.Errorf("the note is %q, want %q", got, tt.want)
			}
		})
	}
}

func TestHostKeysInTheInventory(t *testing.T) {
	for key, ok := range map[string]bool{
		"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB": true, "ecdsa-sha2-nistp256 AAAA comment": true, "": false,
		"AAAAC3Nz":    false,
		"ssh-ed25519": false, "-----BEGIN OPENSSH PRIVATE KEY-----": false, "ssh-rsa AAAA\nssh-rsa BBBB": false,
		"ssh-rsa " + strings.Repeat("A", 2048): false,
	} {
		m := &holdfastv1.Machine{MachineId: "m", Spec: &holdfastv1.MachineSpec{SshHostKeys: []string{key}}}
		if bad := fsm.NormalizeMachine(m); (len(bad) == 0) != ok {
			t.Errorf("host key %q: %v, want it to be fine: %v", key, bad, ok)
		}
	}
	many := &holdfastv1.Machine{Spec: &holdfastv1.MachineSpec{SshHostKeys: make([]string, 9)}}
	if bad := fsm.NormalizeMachine(many); len(bad) != 1 || bad[0].Field != "machine.spec.ssh_host_keys" {
		t.Errorf("nine keys: %v", bad)
	}
}
