package fleet

import (
	"fmt"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/lex"
	"github.com/holdfast-metal/holdfast/fsm/internal/lifecycle"
	"github.com/holdfast-metal/holdfast/fsm/internal/refusal"
	"github.com/holdfast-metal/holdfast/fsm/internal/schema"
	"github.com/holdfast-metal/holdfast/fsm/internal/trail"
	"github.com/holdfast-metal/holdfast/internal/facts/known"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Some makers give one MAC address to many machines, such as that of a BMC's network card over USB,
// and some boards have the serial number and UUID of another one. So neither proves that two hosts
// are one machine. Records are never merged; what contradicts itself is shown as the condition
// IdentityConflict. While it lasts, nothing erases either of the two: see ConflictOf.

// The reasons of the condition IdentityConflict.
const (
	conflictSerial = "OtherSerial" // a host with another serial number reports a MAC address of the machine
	conflictUUID   = "OtherUUID"   // the same with another system UUID
	conflictMAC    = "SharedMAC"   // the machine has a network port with a MAC address of another record
	conflictBoard  = "SharedBoard" // another record has the same serial number and system UUID
)

// lasting reports whether a conflict stays until an operator changes the machine's record. The
// others end when a report shows no conflict any more.
func lasting(reason string) bool { return reason == conflictSerial || reason == conflictUUID }

// CheckReporter refuses the report of a host that has a MAC address of m, but another serial number
// or system UUID. The refusal leaves a condition, because an operator has to decide which machine
// the address belongs to.
func CheckReporter(t *core.Tx, m *holdfastv1.Machine, mac string, facts *holdfastv1.NodeRecord) *refusal.Error {
	reason, what, ours, theirs := otherBoard(t, m, facts)
	if reason == "" {
		return nil
	}
	message := fmt.Sprintf("MAC address %s: a host with %s %s reports it, the machine has %s: if the board was replaced, "+
		"change the machine's serial; if two machines share the address, remove it from mac_addresses",
		mac, what, lex.Clip(theirs, maxPartText), lex.Clip(ours, maxPartText))
	noteConflict(t, m.GetMachineId(), reason, message)
	return refusal.New(refusal.AlreadyExists, ReasonMachineConflict,
		"MAC address %s belongs to machine %q with %s %s, and this report is from %s: nothing of it was recorded. "+
			"If the board was replaced, change the machine's serial (holdfast machine edit); if two machines share the "+
			"address, remove it from mac_addresses",
		mac, m.GetMachineId(), what, lex.Clip(ours, maxPartText), lex.Clip(theirs, maxPartText)).
		With("machine_id", m.GetMachineId()).
		Showing(refusal.New(refusal.AlreadyExists, ReasonMachineConflict,
			"MAC address %s belongs to a machine with another %s: nothing of this report was recorded", mac, what))
}

// otherBoard returns the identifier of a report that contradicts a machine's record, or "". A
// serial number that an operator has declared, or that the machine's BMC reports beside it, decides
// over one that was reported earlier.
func otherBoard(t *core.Tx, m *holdfastv1.Machine, facts *holdfastv1.NodeRecord) (reason, what, ours, theirs string) {
	serial, declared, reported := facts.GetSerialNumber(), m.GetSpec().GetSerial(), m.GetNode().GetSerialNumber()
	same := false
	if known.Text(serial) != "" {
		ours := []string{declared}
		if known.Text(declared) == "" {
			ours = []string{reported}
		}
		if h, ok := t.Hardware.Get(m.GetMachineId()); ok { // one of them is on the label, the other one in DMI
			both := []string{h.GetHardware().GetSerial(), h.GetHardware().GetBoardSerial()}
			if known.SameSerial(both[0], ours[0]) || known.SameSerial(both[1], ours[0]) {
				ours = append(ours, both...)
			}
		}
		for _, s := range ours {
			same = same || known.SameSerial(s, serial)
		}
		if known.Text(ours[0]) != "" && !same {
			return conflictSerial, "serial number", ours[0], serial
		}
	}
	uuid := m.GetNode().GetSystemUuid()
	replaced := same && !known.SameSerial(reported, serial) // the operator has declared the new board
	if known.Text(uuid) != "" && known.Text(facts.GetSystemUuid()) != "" && !replaced &&
		!known.SameUUID(uuid, facts.GetSystemUuid()) {
		return conflictUUID, "system UUID", uuid, facts.GetSystemUuid()
	}
	return "", "", "", ""
}

// maxBoards bounds how many machines with one serial number and UUID are compared.
const maxBoards = 64

// ConflictOf returns why a machine may be another one than its record says, or "". The record that
// owns a shared MAC address, and the older of two with one board, have no condition, but it is
// true for them too.
func ConflictOf(s *core.State, m *holdfastv1.Machine) string {
	c := lifecycle.Condition(m, lifecycle.IdentityConflict)
	if c.GetStatus() && lasting(c.GetReason()) {
		return c.GetMessage()
	}
	if c.GetStatus() && c.GetReason() == conflictMAC {
		if other, taken := ByMAC(s, c.GetSubject()); taken && other.GetMachineId() != m.GetMachineId() {
			return c.GetMessage()
		}
	}
	for _, mac := range m.GetSpec().GetMacAddresses() {
		for at := range s.Machines.Scan(schema.MachinesByShared, mac+"/", "") {
			if at != mac+"/"+m.GetMachineId() {
				return fmt.Sprintf("a port of another machine has MAC address %s too: remove it from mac_addresses if both have it",
					mac)
			}
		}
	}
	if sharesBoard(s, m) {
		return boardMessage(m)
	}
	return ""
}

// CheckIdentity refuses to erase a machine that may be another one.
func CheckIdentity(s *core.State, m *holdfastv1.Machine) *refusal.Error {
	why := ConflictOf(s, m)
	if why == "" {
		return nil
	}
	return refusal.New(refusal.FailedPrecondition, refusal.ReasonIdentity,
		"machine %q may be another one, and nothing erases it until that is decided: %s", m.GetMachineId(), why).
		With("machine_id", m.GetMachineId())
}

// sharesBoard reports whether another machine has the serial number and UUID that a machine has
// reported, unless an operator has declared serial numbers that tell them apart.
func sharesBoard(s *core.State, m *holdfastv1.Machine) bool {
	key, n := schema.BoardKey(m.GetNode()), 0
	if key == "" {
		return false
	}
	for at, other := range s.Machines.Scan(schema.MachinesByBoard, key, "") {
		if at == key+m.GetMachineId() {
			continue
		}
		if n++; n > maxBoards || known.SameSerial(serialOf(m), serialOf(other)) {
			return true
		}
	}
	return false
}

// serialOf returns the serial number of a machine: the declared one, else the reported one.
func serialOf(m *holdfastv1.Machine) string {
	if declared := m.GetSpec().GetSerial(); known.Text(declared) != "" {
		return declared
	}
	return m.GetNode().GetSerialNumber()
}

// boardMessage is the message of conflictBoard.
func boardMessage(m *holdfastv1.Machine) string {
	return fmt.Sprintf("another machine has serial number %s and system UUID %s too: delete the record that is not "+
		"needed; if they are two machines, give one of them another serial",
		lex.Clip(m.GetNode().GetSerialNumber(), maxPartText), lex.Clip(m.GetNode().GetSystemUuid(), maxPartText))
}

// noteConflict sets the condition of a machine, unless it has the same one.
func noteConflict(t *core.Tx, id, reason, message string) {
	m, ok := Edit(t, id)
	if !ok {
		return
	}
	if setConflict(t, m, reason, message, "") {
		PutMachine(t, m)
	}
}

// setConflict sets the condition of a copy of a machine, and reports whether that changes it.
func setConflict(t *core.Tx, m *holdfastv1.Machine, reason, message, subject string) bool {
	c := lifecycle.Condition(m, lifecycle.IdentityConflict)
	if c.GetStatus() && (c.GetReason() == reason && c.GetMessage() == message ||
		lasting(c.GetReason()) && !lasting(reason)) {
		return false
	}
	if !c.GetStatus() || c.GetReason() != reason {
		auditConflict(t, m, "began", reason, message)
	}
	Observe(t, m, &holdfastv1.Condition{
		Type: lifecycle.IdentityConflict, Status: true, Reason: reason, Message: message, ObservedAt: t.Now, Subject: subject,
	})
	return true
}

// endConflict ends the condition of a copy of a machine if it has one of some reasons.
func endConflict(t *core.Tx, m *holdfastv1.Machine, ended func(reason string) bool) {
	c := lifecycle.Condition(m, lifecycle.IdentityConflict)
	if c.GetStatus() && ended(c.GetReason()) {
		auditConflict(t, m, "ended", c.GetReason(), c.GetMessage())
		SetCondition(t, m, lifecycle.IdentityConflict, false, "Resolved")
	}
}

// auditConflict records in the audit trail that a conflict began or ended.
func auditConflict(t *core.Tx, m *holdfastv1.Machine, what, reason, message string) {
	o := t.Command.GetOrigin()
	trail.ChainAudit(t, &holdfastv1.AuditEvent{
		At: t.Now, Principal: t.Command.GetPrincipal(), Source: o.GetSource(), Peer: o.GetPeer(),
		Method: lifecycle.IdentityConflict + "/" + what, Resource: "machines/" + m.GetMachineId(),
		TokenId: o.GetTokenId(), Outcome: trail.AuditOK, Reason: reason, Detail: message, Count: 1,
	})
}

// NoteBoard compares the serial number and UUID in the record of a copy of a machine with those of
// all others.
func NoteBoard(t *core.Tx, m *holdfastv1.Machine) {
	if sharesBoard(t.State, m) {
		setConflict(t, m, conflictBoard, boardMessage(m), "")
		return
	}
	endConflict(t, m, func(reason string) bool { return reason == conflictBoard })
}

// notePorts compares the MAC addresses of a machine's ports with those that other machines have in
// their records.
func notePorts(t *core.Tx, m *holdfastv1.Machine, macs ...string) {
	for _, mac := range macs {
		mac, ok := lex.MAC(mac)
		if !ok {
			continue
		}
		if other, taken := ByMAC(t.State, mac); taken && other.GetMachineId() != m.GetMachineId() {
			setConflict(t, m, conflictMAC, fmt.Sprintf("MAC address %s of one of its ports is that of another machine: "+
				"remove it from mac_addresses there if both have it", mac), mac)
			return
		}
	}
	endConflict(t, m, func(reason string) bool { return reason == conflictMAC })
}

// recheckBoards compares the board of a copy of a machine with those of the others again, after an
// operator has changed its serial number, and the boards of these with all.
func recheckBoards(t *core.Tx, m *holdfastv1.Machine) {
	NoteBoard(t, m)
	recheckOthers(t, m)
}

// recheckOthers ends the conflicts of machines with the same board as m that are none any more.
func recheckOthers(t *core.Tx, m *holdfastv1.Machine) {
	key := schema.BoardKey(m.GetNode())
	if key == "" {
		return
	}
	var others []string
	for at, other := range t.Machines.Scan(schema.MachinesByBoard, key, "") {
		if at != key+m.GetMachineId() {
			others = append(others, other.GetMachineId())
		}
		if len(others) == maxBoards {
			break
		}
	}
	for _, id := range others {
		other, ok := Edit(t, id)
		if c := lifecycle.Condition(other, lifecycle.IdentityConflict); !ok || !c.GetStatus() {
			continue
		}
		NoteBoard(t, other)
		PutMachine(t, other)
	}
}

// ConflictOf returns why a machine may be another one than its record says, or "".
func (v *View) ConflictOf(m *holdfastv1.Machine) string { return ConflictOf(v.s, m) }
