package fsm

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/events"
	"github.com/holdfast-metal/holdfast/fsm/internal/lex"
	"github.com/holdfast-metal/holdfast/fsm/internal/lifecycle"
	"github.com/holdfast-metal/holdfast/fsm/internal/plans"
	"github.com/holdfast-metal/holdfast/fsm/internal/schema"
	"github.com/holdfast-metal/holdfast/fsm/internal/table"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/proto/internalv1"
)

// The reasons from which the node API derives its errors.
const (
	ReasonNodeTransition  = lifecycle.ReasonTransition      // not in the table of transitions
	ReasonInstallAttempts = lifecycle.ReasonInstallAttempts // the retry limit is reached; force resets it
	ReasonNodeNotFound    = "NODE_NOT_FOUND"
	// The limit of discovered machines that wait for approval is reached.
	ReasonDiscoveryFull = "DISCOVERY_FULL"
)

// Limits of a node's record.
const (
	maxNodeText = 255 // bytes a field
	maxTags     = 64
	maxTag      = 64 // bytes
)

func nodeNotFound(id string) *Error {
	return refuse(NotFound, ReasonNodeNotFound, "Node not found").With("node_id", id)
}

// node returns the machine with an id, which may be a machine id or a MAC address.
func node(s *core.State, id string) (*holdfastv1.Machine, bool) {
	if m, ok := s.Machines.Get(id); ok {
		return m, true
	}
	mac, ok := lex.MAC(id)
	if !ok {
		return nil, false
	}
	return byMAC(s, mac)
}

func byMAC(s *core.State, mac string) (*holdfastv1.Machine, bool) {
	return s.Machines.Lookup(schema.MachinesByOwned, "MAC address "+mac)
}

// nodeText returns the text fields of a record that clients set, by path.
func nodeText(n *holdfastv1.NodeRecord) map[string]*string {
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

// factPaths returns the paths that a node may report about itself.
func factPaths() []string {
	return []string{"hostname", "ip_address", "vendor", "model", "serial_number", "system_uuid", "arch", "boot_mode"}
}

// CheckNode returns the violations of a client's node record, and trims its texts.
func CheckNode(n *holdfastv1.NodeRecord) []FieldViolation {
	var bad []FieldViolation
	if n == nil {
		return nil
	}
	texts := nodeText(n)
	for _, name := range nodePaths() {
		text := texts[name]
		if text == nil {
			continue
		}
		*text = strings.TrimSpace(*text)
		if len(*text) > maxNodeText || strings.ContainsAny(*text, "\x00\n\r") || !utf8.ValidString(*text) {
			bad = append(bad, FieldViolation{
				Field: name, Description: fmt.Sprintf("must be one line of at most %d bytes", maxNodeText),
			})
		}
	}
	if len(n.GetTags()) > maxTags {
		bad = append(bad, FieldViolation{
			Field:       "tags",
			Description: fmt.Sprintf("are %d, at most %d are allowed", len(n.GetTags()), maxTags),
		})
	}
	for i, tag := range n.GetTags() {
		tag = lex.Lower(strings.TrimSpace(tag))
		n.Tags[i] = tag
		if tag == "" || len(tag) > maxTag || strings.ContainsAny(tag, "\x00\n\r/") {
			bad = append(bad, FieldViolation{
				Field:       fmt.Sprintf("tags[%d]", i),
				Description: fmt.Sprintf("must be one line of 1 to %d bytes without a slash", maxTag),
			})
		}
	}
	return bad
}

// nodeWords returns the values of enumerated fields. Empty means unknown.
func nodeWords() map[string][]string {
	return map[string][]string{"arch": {"", "x86_64", "arm64", "aarch64", "amd64"}, "boot_mode": {"", "bios", "uefi"}}
}

// checkNodeWords returns the violations of enumerated fields set by an operator. Values
// reported by a machine are not checked.
func checkNodeWords(t *core.Tx, n *holdfastv1.NodeRecord) []FieldViolation {
	if n == nil || !t.Has(core.Level2) {
		return nil
	}
	var bad []FieldViolation
	texts, words := nodeText(n), nodeWords()
	for _, name := range []string{"arch", "boot_mode"} {
		if !slices.Contains(words[name], *texts[name]) {
			bad = append(bad, FieldViolation{
				Field:       name,
				Description: fmt.Sprintf("%q is not one of %s", *texts[name], strings.Join(words[name][1:], ", ")),
			})
		}
	}
	return bad
}

// checkWorkflow refuses a workflow that is not a plan.
func checkWorkflow(t *core.Tx, id string) *Error {
	if id != "" && !t.Plans.Has(id) {
		return plans.NotFound(id)
	}
	return nil
}

// createNode registers a node: a machine that waits for approval.
func createNode(t *core.Tx, c *internalv1.CreateNode) (*holdfastv1.Machine, *Error) {
	mac, ok := lex.MAC(c.GetMacAddress())
	if !ok {
		return nil, invalid("mac_address", "%q is not a MAC address such as aa:bb:cc:dd:ee:ff", c.GetMacAddress())
	}
	if other, taken := byMAC(t.State, mac); taken {
		return nil, refuse(AlreadyExists, "MACHINE_CONFLICT", "Node with MAC %s already exists", mac).
			With("machine_id", other.GetMachineId())
	}
	if err := Invalid(append(CheckNode(c.GetNode()), checkNodeWords(t, c.GetNode())...)); err != nil {
		return nil, err
	}
	if err := checkWorkflow(t, c.GetNode().GetWorkflowId()); err != nil {
		return nil, err
	}
	if err := checkNewNode(t, c.GetMachineId(), c.GetGeneratedId()); err != nil {
		return nil, err
	}
	return whole(t.State,
		discover(t, c.GetMachineId(), mac, c.GetNode(), change{by: byOperator, comment: "registered"})), nil
}

func checkNewNode(t *core.Tx, id string, generated bool) *Error {
	switch {
	case !lex.ValidName(id, 64):
		return invalid("machine_id", "%q is not 1 to 64 letters, digits, '.', '_', '-' or ':'", id)
	case t.Machines.Has(id) && generated:
		return refuse(Aborted, ReasonIDTaken, "generated machine id %q is in use", id)
	case t.Machines.Has(id):
		return refuse(AlreadyExists, "MACHINE_CONFLICT", "machine %q exists", id).With("machine_id", id)
	}
	return nil
}

// checkDiscovery refuses another discovered machine if limit of them already wait for
// approval. Otherwise any host on the boot network could create machines without end. A limit
// of 0 means no limit.
func checkDiscovery(t *core.Tx, mac string, limit uint32) *Error {
	if limit == 0 {
		return nil
	}
	waiting := uint32(0)
	discovered := &table.Facets{Path: "status.node_state", Value: holdfastv1.Node_DISCOVERED.String()}
	for range t.Machines.Find(table.Query{Facets: discovered}, "") {
		if waiting++; waiting >= limit {
			return refuse(FailedPrecondition, ReasonDiscoveryFull,
				"discover node %s: %d discovered machines await approval, which is the limit: "+
					"approve or delete them, or raise --auto-discover-limit",
				mac, limit)
		}
	}
	return nil
}

// discover creates the machine of an unknown node.
func discover(t *core.Tx, id, mac string, in *holdfastv1.NodeRecord, c change) *holdfastv1.Machine {
	m := newMachineRecord(t, id, "")
	m.Spec.MacAddresses, m.Node = []string{mac}, &holdfastv1.NodeRecord{}
	m.Status.NodeState = holdfastv1.Node_NODE_STATE_UNSPECIFIED
	mergeNode(m.GetNode(), in, nodePaths())
	c.node = holdfastv1.Node_DISCOVERED
	movePhase(t, m, holdfastv1.MachineStatus_FACTORY_READY, c)
	putMachine(t, m)
	return m
}

// mergeNode copies the fields in paths, which must be valid.
func mergeNode(n, in *holdfastv1.NodeRecord, paths []string) {
	if in == nil {
		in = &holdfastv1.NodeRecord{}
	}
	own, others := nodeText(n), nodeText(in)
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

// updateNode sets the fields of a node that operators maintain. They do not include its
// state.
func updateNode(t *core.Tx, c *internalv1.UpdateNode) (*holdfastv1.Machine, *Error) {
	m, ok := node(t.State, c.GetId())
	if !ok {
		return nil, nodeNotFound(c.GetId())
	}
	paths := c.GetPaths()
	if len(paths) == 0 {
		paths = nodePaths()
	}
	for _, p := range paths {
		if !slices.Contains(nodePaths(), p) && p != "tags.add" && p != "tags.remove" {
			return nil, invalid("paths", "%q is not one of %s, tags.add, tags.remove",
				p, strings.Join(nodePaths(), ", "))
		}
	}
	if err := Invalid(append(CheckNode(c.GetNode()), checkNodeWords(t, c.GetNode())...)); err != nil {
		return nil, err
	}
	old := &holdfastv1.NodeRecord{}
	if m.Node != nil {
		old = proto.CloneOf(m.Node)
	} else {
		m.Node = &holdfastv1.NodeRecord{}
	}
	mergeNode(m.Node, c.GetNode(), paths)
	if len(m.Node.GetTags()) > maxTags {
		return nil, invalid("tags", "would be %d, at most %d are allowed", len(m.Node.GetTags()), maxTags)
	}
	if m.Node.GetWorkflowId() != old.GetWorkflowId() {
		if err := checkWorkflow(t, m.Node.GetWorkflowId()); err != nil {
			return nil, err
		}
	}
	if changed := nodeDiff(old, m.GetNode()); changed != "" {
		events.AddHistory(t, m, &holdfastv1.HistoryEntry{Facet: "inventory", To: changed, TriggeredBy: byOperator})
		putMachine(t, m)
	}
	return whole(t.State, m), nil
}

// nodeDiff returns the names of the fields that differ, or "".
func nodeDiff(old, n *holdfastv1.NodeRecord) string {
	var names []string
	a, b := nodeText(old), nodeText(n)
	for _, p := range nodePaths() {
		if p == "tags" && !slices.Equal(old.GetTags(), n.GetTags()) || p != "tags" && *a[p] != *b[p] {
			names = append(names, "node."+p)
		}
	}
	return strings.Join(names, ", ")
}

// reportNode applies the report of an installer or a booted node: its facts, the time, and
// the consequences of its installation status.
func reportNode(t *core.Tx, c *internalv1.ReportNode) (*holdfastv1.Machine, *Error) {
	r := c.GetReport()
	mac, ok := lex.MAC(r.GetMacAddress())
	if !ok {
		return nil, invalid("mac_address", "%q is not a MAC address such as aa:bb:cc:dd:ee:ff", r.GetMacAddress())
	}
	if err := Invalid(CheckNode(r.GetFacts())); err != nil {
		return nil, err
	}
	if p := r.GetInstallationProgress(); p < 0 || p > 100 {
		return nil, invalid("installation_progress", "%d is not 0 to 100", p)
	}
	facts := make([]string, 0, len(factPaths()))
	if in := r.GetFacts(); in != nil {
		texts := nodeText(in)
		for _, p := range factPaths() {
			if *texts[p] != "" {
				facts = append(facts, p)
			}
		}
	}
	m, known := byMAC(t.State, mac)
	if !known {
		if !c.GetDiscover() {
			return nil, refuse(NotFound, ReasonNodeNotFound, "Node with MAC %s not found", mac).With("node_id", mac)
		}
		if err := checkDiscovery(t, mac, c.GetDiscoverLimit()); err != nil {
			return nil, err
		}
		if err := checkNewNode(t, c.GetMachineId(), true); err != nil {
			return nil, err
		}
		m = discover(t, c.GetMachineId(), mac, nil, change{by: byReport, comment: "discovered by its report"})
	}
	if err := checkSpeaker(t, m); err != nil {
		return nil, err
	}
	if beginsInstall(t, m, r) {
		if err := checkObservable(t, m, c.GetRunId()); err != nil {
			return nil, err
		}
	}
	if m.Node == nil {
		m.Node = &holdfastv1.NodeRecord{}
	}
	mergeNode(m.Node, r.GetFacts(), facts)
	m.Node.LastSeenAt = t.Now
	m = installReported(t, m, r, c.GetRunId())
	putMachine(t, m)
	return whole(t.State, m), nil
}

// beginsInstall reports whether a report begins a run.
func beginsInstall(t *core.Tx, m *holdfastv1.Machine, r *holdfastv1.ReportNodeRequest) bool {
	return r.GetInstallationStatus() == "started" && m.GetStatus().GetNodeState() == holdfastv1.Node_PENDING &&
		m.GetStatus().GetActiveRunId() == ""
}

// MachineByMAC returns the machine with a MAC address, in any notation.
func (v *View) MachineByMAC(mac string) (*holdfastv1.Machine, bool) {
	mac, ok := lex.MAC(mac)
	if !ok {
		return nil, false
	}
	m, ok := byMAC(v.state, mac)
	if !ok {
		return nil, false
	}
	return whole(v.state, m), true
}

// NodeByID returns the machine with a machine id or a MAC address.
func (v *View) NodeByID(id string) (*holdfastv1.Machine, bool) {
	m, ok := node(v.state, id)
	if !ok {
		return nil, false
	}
	return whole(v.state, m), true
}

// Stalled returns the machines whose node has been installing, deprovisioning or migrating
// since before a time. The longest comes first, each with its key for the next page. If after
// is empty, it starts at the first.
func (v *View) Stalled(since time.Time, after string) iter.Seq2[string, *holdfastv1.Machine] {
	end := schema.OrderedTime(timestamppb.New(since), "")
	return func(yield func(string, *holdfastv1.Machine) bool) {
		for key, m := range v.state.Machines.Scan(schema.MachinesPassing, "", after) {
			if key >= end || !yield(key, whole(v.state, m)) {
				return
			}
		}
	}
}
