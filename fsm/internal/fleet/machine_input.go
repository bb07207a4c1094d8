package fleet

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm/internal/access"
	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/lex"
	"github.com/holdfast-metal/holdfast/fsm/internal/limits"
	"github.com/holdfast-metal/holdfast/fsm/internal/refusal"
	"github.com/holdfast-metal/holdfast/proto/holdfast/machinefield"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// NormalizeMachine converts spec and labels of a request to their stored form, and returns
// the violations. MAC addresses get lower case, colons and no duplicates; endpoints are
// trimmed.
func NormalizeMachine(m *holdfastv1.Machine) []refusal.FieldViolation {
	// The other checks take a time that grows with the lists.
	if bad := limits.Violations("machine.", m); len(bad) > 0 {
		return bad
	}
	bad := refusal.Violations{Prefix: "machine."}
	if id := m.GetMachineId(); id != "" && !lex.ValidName(id, 64) {
		bad.Add("machine_id", "%q is not 1 to 64 letters, digits, '.', '_', '-' or ':'", id)
	}
	for _, k := range slices.Sorted(maps.Keys(m.GetLabels())) {
		if !lex.ValidName(strings.ReplaceAll(k, "/", "."), 63) {
			bad.Add("labels", "key %q is not 1 to 63 letters, digits, '.', '_', '-', ':' or '/'", k)
		}
		if v := m.GetLabels()[k]; len(v) > 256 {
			bad.Add("labels."+k, "value has %d bytes, at most 256 are allowed", len(v))
		} else if !lex.SingleLine(v) {
			bad.Add("labels."+k, "value %q has a control or an invisible character", v)
		}
	}
	s := m.GetSpec()
	if s == nil {
		return bad.Fields
	}
	macs := make([]string, 0, len(s.GetMacAddresses()))
	for i, in := range s.GetMacAddresses() {
		mac, problem := lex.ParseMAC(in)
		if problem != "" {
			bad.Add(fmt.Sprintf("spec.mac_addresses[%d]", i), "%s", problem)
		} else if !slices.Contains(macs, mac) {
			macs = append(macs, mac)
		}
	}
	s.MacAddresses = macs
	for f := range machinefield.All() {
		if f.List() {
			continue
		}
		value := strings.TrimSpace(f.Text(s))
		f.Set(s, value)
		if len(value) > 255 || !lex.SingleLine(value) {
			bad.Add(f.Path(), "must be one line of at most 255 bytes, without control and invisible characters")
		}
	}
	for i, k := range s.GetSshHostKeys() {
		if kind, rest, ok := strings.Cut(k, " "); !ok || len(k) > 2048 || !lex.SingleLine(k) ||
			rest == "" || !hostKeyKind(kind) {
			bad.Add(fmt.Sprintf("spec.ssh_host_keys[%d]", i), "is not a public key such as ssh-ed25519 AAAA…, on one line")
		}
	}
	for _, f := range []struct {
		name, value string
		problem     func(string) string
	}{{"ssh_endpoint", s.GetSshEndpoint(), lex.SSHEndpoint}, {"bmc_endpoint", s.GetBmcEndpoint(), lex.BMCEndpoint}} {
		if f.value != "" && f.problem(f.value) != "" {
			bad.Add("spec."+f.name, "%s", f.problem(f.value))
		}
	}
	if p := s.GetPool(); p != "" && !lex.Printable(p, core.MaxPoolName) {
		bad.Add("spec.pool", "%q is not 1 to %d visible characters", p, core.MaxPoolName)
	}
	for _, f := range []struct{ name, value string }{
		{"bmc_credentials_ref", s.GetBmcCredentialsRef()},
		{"ssh_credentials_ref", s.GetSshCredentialsRef()},
	} {
		if f.value != "" && !access.ValidSecretName(f.value) {
			bad.Add("spec."+f.name, "is not the name of a secret") // it may be a secret value
		}
	}
	return bad.Fields
}

// hostKeyKind reports whether s is the type of a public key, so that a private key is not
// accepted as one.
func hostKeyKind(s string) bool {
	return strings.HasPrefix(s, "ssh-") || strings.HasPrefix(s, "ecdsa-sha2-") || strings.HasPrefix(s, "sk-")
}

// MergeMachine copies the fields of spec and labels in the mask. An empty mask replaces
// whichever of the two is set.
func MergeMachine(t *core.Tx, m, in *holdfastv1.Machine, paths []string) *refusal.Error {
	in = proto.CloneOf(in)
	if len(paths) == 0 {
		if in.GetSpec() != nil {
			m.Spec = in.GetSpec()
		}
		if len(in.GetLabels()) > 0 {
			m.Labels = in.GetLabels()
		}
		return nil
	}
	if in.GetSpec() == nil {
		in.Spec = &holdfastv1.MachineSpec{}
	}
	if len(paths) == 0 {
		m.Spec, m.Labels = in.GetSpec(), in.GetLabels()
		return nil
	}
	for _, p := range paths {
		field, rest, _ := strings.Cut(p, ".")
		switch {
		case p == "spec":
			m.Spec = in.GetSpec()
		case p == "labels":
			m.Labels = in.GetLabels()
		case field == "labels" && rest != "":
			if v, ok := in.GetLabels()[rest]; ok {
				if m.Labels == nil {
					m.Labels = map[string]string{}
				}
				m.Labels[rest] = v
			} else {
				delete(m.Labels, rest)
			}
		case field == "spec":
			src, dst := in.GetSpec().ProtoReflect(), m.GetSpec().ProtoReflect()
			fd := src.Descriptor().Fields().ByTextName(rest)
			if fd == nil {
				return refusal.InvalidField("update_mask", "spec has no field %q", rest)
			}
			if src.Has(fd) {
				dst.Set(fd, src.Get(fd))
			} else {
				dst.Clear(fd)
			}
		default:
			return refusal.InvalidField("update_mask",
				"%q is not a path of spec or labels: status is managed by the server", p)
		}
	}
	return nil
}

// inventoryDiff returns the names of the fields of spec and labels that differ, or "".
func inventoryDiff(old, m *holdfastv1.Machine) string {
	var names []string
	a, b := old.GetSpec().ProtoReflect(), m.GetSpec().ProtoReflect()
	fields := a.Descriptor().Fields()
	for i := range fields.Len() {
		if fd := fields.Get(i); !a.Get(fd).Equal(b.Get(fd)) {
			names = append(names, "spec."+fd.TextName())
		}
	}
	if !maps.Equal(old.GetLabels(), m.GetLabels()) {
		names = append(names, "labels")
	}
	return strings.Join(names, ", ")
}
