// Package holdfastv1 is the public API of Holdfast, generated from the .proto files beside it. Only
// the hash chain of audit events is written by hand, because every program must compute it in the
// same way. It must not import another package of Holdfast.
package holdfastv1

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
)

// auditDomain is the beginning of the hashed bytes, so that no other data has the hash of an event.
// Another layout gets another number.
const auditDomain = "holdfast audit event 2"

// AuditHash returns the hash that an audit event must have (docs/security.md): the SHA-256 of these
// fields, in this order. Each is preceded by its length in bytes, as four bytes, most significant
// first:
//
//	"holdfast audit event 2", previous_hash, sequence, at (unix seconds), at (nanoseconds), principal, source, peer, method, resource,
//	request_id, outcome, reason, index, count, token_id, detail
//
// Strings are UTF-8, numbers eight bytes, most significant first. The hash does not depend on the
// encoding of protobuf, so events that were exported as JSON can be verified too.
func AuditHash(e *AuditEvent) []byte {
	var space [512]byte
	b := appendText(space[:0], auditDomain)
	b = append(binary.BigEndian.AppendUint32(b, uint32(len(e.GetPreviousHash()))), e.GetPreviousHash()...)
	b = appendNumber(b, e.GetSequence())
	b = appendNumber(b, uint64(e.GetAt().GetSeconds()))
	b = appendNumber(b, uint64(e.GetAt().GetNanos()))
	b = appendText(b, e.GetPrincipal())
	b = appendText(b, e.GetSource())
	b = appendText(b, e.GetPeer())
	b = appendText(b, e.GetMethod())
	b = appendText(b, e.GetResource())
	b = appendText(b, e.GetRequestId())
	b = appendText(b, e.GetOutcome())
	b = appendText(b, e.GetReason())
	b = appendNumber(b, e.GetIndex())
	b = appendNumber(b, uint64(e.GetCount()))
	b = appendText(b, e.GetTokenId())
	b = appendText(b, e.GetDetail())
	sum := sha256.Sum256(b)
	return sum[:]
}

func appendText(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...)
}

func appendNumber(b []byte, n uint64) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(b, 8), n)
}

// AuditChain verifies audit events that are added oldest first. The zero value accepts any first
// event. With the sequence and hash of an event that was verified before, it verifies that no event
// between them is missing.
type AuditChain struct {
	Sequence uint64 // of the newest event
	Hash     []byte // of the newest event
	First    uint64 // sequence of the first event
	Anchor   []byte // previous_hash of the first event: what came before is no longer kept
	Count    uint64
}

// Add verifies the next event. If it returns an error, the chain is unchanged.
func (c *AuditChain) Add(e *AuditEvent) error {
	n := e.GetSequence()
	switch {
	case n == 0:
		return fmt.Errorf("an event has no sequence number")
	case c.Sequence != 0 && n != c.Sequence+1:
		return fmt.Errorf("event %d comes after event %d: %s", n, c.Sequence, missing(c.Sequence, n))
	case c.Sequence != 0 && !bytes.Equal(e.GetPreviousHash(), c.Hash):
		return fmt.Errorf("event %d follows an event with hash %x, but event %d has hash %x", n, e.GetPreviousHash(),
			c.Sequence, c.Hash)
	case n == 1 && len(e.GetPreviousHash()) > 0:
		return fmt.Errorf("event 1 follows an event with hash %x, but it is the first", e.GetPreviousHash())
	case n > 1 && len(e.GetPreviousHash()) != sha256.Size:
		return fmt.Errorf("event %d does not say which event it follows", n)
	}
	if want := AuditHash(e); !bytes.Equal(e.GetHash(), want) {
		return fmt.Errorf("event %d has hash %x, but its content has hash %x: it was changed", n, e.GetHash(), want)
	}
	if c.Count == 0 {
		c.First, c.Anchor = n, e.GetPreviousHash()
	}
	c.Sequence, c.Hash = n, e.GetHash()
	c.Count++
	return nil
}

func missing(last, next uint64) string {
	switch {
	case next <= last:
		return "they are not in order"
	case next == last+2:
		return fmt.Sprintf("event %d is missing", last+1)
	}
	return fmt.Sprintf("events %d to %d are missing", last+1, next-1)
}
