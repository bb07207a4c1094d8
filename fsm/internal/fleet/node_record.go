package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/lex"
	"github.com/holdfast-metal/holdfast/fsm/internal/limits"
	"github.com/holdfast-metal/holdfast/fsm/internal/refusal"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Limits of a node's record.
const (
	MaxNodeText = 255 // bytes a field
	maxTag      = 64  // bytes
)

// NodeText returns the text fields of a record that clients set, by path.
func NodeText(n *holdfastv1.NodeRecord) map[string]*string {
	return map[string]*string{
		"hostname": &n.Hostname, "ip_address": &n.IpAddress, "workflow_id": &n.WorkflowId, "vendor": &n.Vendor,
		"model":         &n.Model,
		"serial_number": &n.SerialNumber, "system_uuid": &n.SystemUuid, "arch": &n.Arch,
		"boot_mode": &n.BootMode, "group_id": &n.GroupId,
	}
}

// nodePaths returns the paths of all fields that clients set, in order.
func nodePaths() []string {
	return []string{
		"hostname", "ip_address", "workflow_id", "vendor", "model", "serial_number", "system_uuid", "arch",
		"boot_mode", "group_id", "tags",
	}
}

// MergeFacts copies the fields that a node has reported about itself, except for empty ones. in may
// be nil.
func MergeFacts(n, in *holdfastv1.NodeRecord) {
	if in == nil {
		return
	}
	own, facts := NodeText(n), NodeText(in)
	for _, p := range append(hardwarePaths(), "hostname", "ip_address") {
		if *facts[p] != "" {
			*own[p] = *facts[p]
		}
	}
}

// CheckNode returns the violations of a client's node record, and trims its texts.
func CheckNode(n *holdfastv1.NodeRecord) []refusal.FieldViolation {
	var bad refusal.Violations
	if n == nil {
		return nil
	}
	texts := NodeText(n)
	for _, name := range nodePaths() {
		text := texts[name]
		if text == nil {
			continue
		}
		*text = strings.TrimSpace(*text)
		if len(*text) > MaxNodeText || strings.ContainsAny(*text, "\x00\n\r") || !utf8.ValidString(*text) {
			bad.Add(name, "must be one line of at most %d bytes", MaxNodeText)
		}
	}
	if len(n.GetTags()) > limits.Tags {
		bad.Add("tags", "are %d, at most %d are allowed", len(n.GetTags()), limits.Tags)
	}
	for i, tag := range n.GetTags() {
		tag = lex.Lower(strings.TrimSpace(tag))
		n.Tags[i] = tag
		if tag == "" || len(tag) > maxTag || strings.ContainsAny(tag, "\x00\n\r/") {
			bad.Add(fmt.Sprintf("tags[%d]", i), "must be one line of 1 to %d bytes without a slash", maxTag)
		}
	}
	return bad.Fields
}

// checkNodeWords returns the violations of enumerated fields set by an operator. An empty value
// means unknown. Values reported by a machine are not checked.
func checkNodeWords(n *holdfastv1.NodeRecord) []refusal.FieldViolation {
	if n == nil {
		return nil
	}
	var bad refusal.Violations
	for _, f := range []struct {
		name, value string
		words       []string
	}{
		{"arch", n.GetArch(), []string{"x86_64", "arm64", "aarch64", "amd64"}},
		{"boot_mode", n.GetBootMode(), []string{"bios", "uefi"}},
	} {
		if f.value != "" && !slices.Contains(f.words, f.value) {
			bad.Add(f.name, "%q is not one of %s", f.value, strings.Join(f.words, ", "))
		}
	}
	return bad.Fields
}

// MergeNode copies the fields in paths, which must be valid.
func MergeNode(n, in *holdfastv1.NodeRecord, paths []string) {
	if in == nil {
		in = &holdfastv1.NodeRecord{}
	}
	own, others := NodeText(n), NodeText(in)
	for _, p := range paths {
		switch p {
		case "tags":
			n.Tags = nil
			fallthrough
		case "tags.add":
			for _, tag := range in.GetTags() {
				if !slices.Contains(n.GetTags(), tag) {
					n.Tags = append(n.GetTags(), tag)
				}
			}
		case "tags.remove":
			n.Tags = slices.DeleteFunc(n.GetTags(), func(tag string) bool { return slices.Contains(in.GetTags(), tag) })
		default:
			*own[p] = *others[p]
		}
	}
}

// nodeDiff returns the names of the fields that differ, or "".
func nodeDiff(old, n *holdfastv1.NodeRecord) string {
	var names []string
	a, b := NodeText(old), NodeText(n)
	for _, p := range nodePaths() {
		if p == "tags" && !slices.Equal(old.GetTags(), n.GetTags()) || p != "tags" && *a[p] != *b[p] {
			names = append(names, "node."+p)
		}
	}
	return strings.Join(names, ", ")
}

// ForgetFailedInstalls clears the failed installs of a machine whose run begins an install. A run
// that is canceled before it begins leaves them.
func ForgetFailedInstalls(t *core.Tx, run *holdfastv1.Run) {
	m, ok := Edit(t, run.GetMachineId())
	if !ok || m.GetStatus().GetActiveRunId() != run.GetRunId() ||
		m.GetStatus().GetNodeState() != holdfastv1.Node_INSTALLING ||
		m.GetNode().GetInstallAttempts() == 0 && m.GetNode().GetLastInstallError() == "" {
		return
	}
	m.Node.InstallAttempts, m.Node.LastInstallError = 0, ""
	PutMachine(t, m)
}

// NoteFailedInstall records a failed install in the node's record, as reports of an installer
// do. The caller stores the machine.
func NoteFailedInstall(m *holdfastv1.Machine, attempt int32, why string) {
	if m.Node == nil {
		m.Node = &holdfastv1.NodeRecord{}
	}
	m.Node.InstallAttempts = max(m.GetNode().GetInstallAttempts(), attempt)
	m.Node.LastInstallError = lex.Clip(cmp.Or(why, m.GetNode().GetLastInstallError()), core.MaxNote)
}
