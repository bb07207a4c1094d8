package fleet

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/events"
	"github.com/holdfast-metal/holdfast/fsm/internal/lex"
	"github.com/holdfast-metal/holdfast/fsm/internal/lifecycle"
	"github.com/holdfast-metal/holdfast/fsm/internal/limits"
	"github.com/holdfast-metal/holdfast/fsm/internal/plans"
	"github.com/holdfast-metal/holdfast/fsm/internal/refusal"
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

// NodeNotFound returns the refusal of a command that names an unknown node.
func NodeNotFound(id string) *refusal.Error {
	return refusal.New(refusal.NotFound, ReasonNodeNotFound, "Node not found").With("node_id", id)
}

// NoNodeWithMAC returns the refusal of a report from an unknown node.
func NoNodeWithMAC(mac string) *refusal.Error {
	return refusal.New(refusal.NotFound, ReasonNodeNotFound, "Node with MAC %s not found", mac).With("node_id", mac)
}

// checkWorkflow refuses a workflow that is not a plan.
func checkWorkflow(t *core.Tx, id string) *refusal.Error {
	if id != "" && !t.Plans.Has(id) {
		return plans.NotFound(id)
	}
	return nil
}

// CreateNode registers a node: a machine that waits for approval.
func CreateNode(t *core.Tx, c *internalv1.CreateNode) (*holdfastv1.Machine, *refusal.Error) {
	mac, problem := lex.ParseMAC(c.GetMacAddress())
	if problem != "" {
		return nil, refusal.InvalidField("mac_address", "%s", problem)
	}
	if other, taken := ByMAC(t.State, mac); taken {
		err := conflict(t, other, "Node with MAC %s already exists", mac)
		if err.Shown != nil { // the API has this text for all conflicts
			err.Shown.Message = err.Message
		}
		return nil, err
	}
	if err := refusal.Invalid(append(CheckNode(c.GetNode()), checkNodeWords(c.GetNode())...)); err != nil {
		return nil, err
	}
	if err := checkWorkflow(t, c.GetNode().GetWorkflowId()); err != nil {
		return nil, err
	}
	if err := CheckNewNode(t, c.GetMachineId(), c.GetGeneratedId()); err != nil {
		return nil, err
	}
	m := Discover(t, c.GetMachineId(), mac, c.GetNode(), Change{By: ByOperator, Comment: "registered"})
	return Whole(t.State, m), nil
}

// CheckNewNode refuses an id of a new node that is invalid or in use.
func CheckNewNode(t *core.Tx, id string, generated bool) *refusal.Error {
	switch {
	case !lex.ValidName(id, 64):
		return refusal.InvalidField("machine_id", "%q is not 1 to 64 letters, digits, '.', '_', '-' or ':'", id)
	case t.Machines.Has(id) && generated:
		return refusal.New(refusal.Aborted, refusal.ReasonIDTaken, "generated machine id %q is in use", id)
	case t.Machines.Has(id):
		return refusal.New(refusal.AlreadyExists, "MACHINE_CONFLICT", "machine %q exists", id).With("machine_id", id)
	}
	return checkSpelling(t, id)
}

// checkSpelling refuses the id of a new machine that is that of another one in other letters.
func checkSpelling(t *core.Tx, id string) *refusal.Error {
	if !schema.Respelled(t.Machines, schema.MachinesByLower, id) {
		return nil
	}
	return refusal.New(refusal.AlreadyExists, "MACHINE_CONFLICT",
		"machine %q differs from another machine only in capital letters: use the same spelling everywhere", id).
		With("machine_id", id)
}

// CheckDiscovery refuses another discovered machine if limit of them already wait for
// approval. Otherwise any host on the boot network could create machines without end. A limit
// of 0 means no limit.
func CheckDiscovery(t *core.Tx, mac string, limit uint32) *refusal.Error {
	if limit == 0 {
		return nil
	}
	waiting := uint32(0)
	discovered := &table.Facets{Path: "status.node_state", Value: holdfastv1.Node_DISCOVERED.String()}
	for range t.Machines.Find(table.Query{Facets: discovered}, "") {
		if waiting++; waiting >= limit {
			return refusal.New(refusal.FailedPrecondition, ReasonDiscoveryFull,
				"discover node %s: the limit of %d discovered machines that await approval is reached: "+
					"approve or delete them, or raise --auto-discover-limit",
				mac, limit)
		}
	}
	return nil
}

// Discover creates the machine of an unknown node.
func Discover(t *core.Tx, id, mac string, in *holdfastv1.NodeRecord, c Change) *holdfastv1.Machine {
	m := newMachineRecord(t, id, "")
	m.Spec.MacAddresses, m.Node = []string{mac}, &holdfastv1.NodeRecord{}
	m.Status.NodeState = holdfastv1.Node_NODE_STATE_UNSPECIFIED
	MergeNode(m.GetNode(), in, nodePaths())
	c.Node = holdfastv1.Node_DISCOVERED
	MovePhase(t, m, holdfastv1.MachineStatus_FACTORY_READY, c)
	PutMachine(t, m)
	return m
}

// UpdateNode sets the fields of a node that operators maintain. They do not include its
// state.
func UpdateNode(t *core.Tx, c *internalv1.UpdateNode) (*holdfastv1.Machine, *refusal.Error) {
	m, ok := EditNode(t, c.GetId())
	if !ok {
		return nil, NodeNotFound(c.GetId())
	}
	paths := c.GetPaths()
	if len(paths) == 0 {
		paths = nodePaths()
	}
	for _, p := range paths {
		if !slices.Contains(nodePaths(), p) && p != "tags.add" && p != "tags.remove" {
			return nil, refusal.InvalidField("paths", "%q is not one of %s, tags.add, tags.remove",
				p, strings.Join(nodePaths(), ", "))
		}
	}
	if err := refusal.Invalid(append(CheckNode(c.GetNode()), checkNodeWords(c.GetNode())...)); err != nil {
		return nil, err
	}
	old := &holdfastv1.NodeRecord{}
	if m.Node != nil {
		old = proto.CloneOf(m.Node)
	} else {
		m.Node = &holdfastv1.NodeRecord{}
	}
	MergeNode(m.Node, c.GetNode(), paths)
	if len(m.Node.GetTags()) > limits.Tags {
		return nil, refusal.InvalidField("tags", "would be %d, at most %d are allowed", len(m.Node.GetTags()), limits.Tags)
	}
	if m.Node.GetWorkflowId() != old.GetWorkflowId() {
		if err := checkWorkflow(t, m.Node.GetWorkflowId()); err != nil {
			return nil, err
		}
	}
	if changed := nodeDiff(old, m.GetNode()); changed != "" {
		if old.GetSerialNumber() != m.GetNode().GetSerialNumber() || old.GetSystemUuid() != m.GetNode().GetSystemUuid() {
			endConflict(t, m, lasting)
			NoteBoard(t, m)
		}
		events.AddHistory(t, m, &holdfastv1.HistoryEntry{Facet: "inventory", To: changed, TriggeredBy: ByOperator})
		PutMachine(t, m)
	}
	return Whole(t.State, m), nil
}
