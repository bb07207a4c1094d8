// Package providers defines what Holdfast needs of hardware, in small capability
// interfaces, and picks the provider of a machine. A provider implements the
// capabilities that it has; a step that needs one it lacks is refused when the
// run is started.
//
// Providers know machines and attempts. They must not know runs' state, the FSM or
// the cluster (CONTRIBUTING.md), and they must not retry effects: that is the executor's
// decision, because only the record says what was done.
//
// # In time or not at all
//
// A leader that was stopped between its last look at the cluster and an effect must not do the
// effect when it goes on: the next leader has acted. So the context of every call that changes
// something has a not-after time, half a second or less away (docs/decisions/0004). A provider
//
//   - checks it (InTime) right before the bytes of the effect leave, after everything that takes
//     time: connecting, logging in, queueing for the BMC. For HTTP, package guard does it in the
//     last line before the system call;
//   - answers an error of class Late when it has passed, and only when nothing was done. The
//     executor then asks the cluster again, and calls once more if it still leads. What was opened
//     meanwhile is kept, so that the next call is in time;
//   - tells the hardware, where that can refuse what comes late;
//   - does not let the effect be on its way for longer than DeliverTime. What takes longer from
//     there until it shows, such as a program that does the sending, is part of its Settle.
package providers

import (
	"context"
	"io"
	"strconv"
	"time"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Machine is what providers are told of a machine. They must not change it.
type Machine = *holdfastv1.Machine

// Provider is one configured instance: it implements one or more of the capability
// interfaces below.
type Provider interface {
	// Kind is the provider's kind, e.g. "fake".
	Kind() string
}

// Op names the attempt on whose behalf an effect is done. Providers pass it to the
// hardware where it can hold it, so that effects can be told apart afterwards.
type Op struct {
	RunID   string
	Step    string
	Attempt int32
	Epoch   uint64 // leader epoch; zero where no leader is involved
}

// Token is a name for the attempt that stays the same when another leader takes it over.
func (o Op) Token() string { return o.RunID + "-" + o.Step + "-" + strconv.Itoa(int(o.Attempt)) }

// Inspector observes a machine. It must never change anything.
type Inspector interface {
	Inspect(ctx context.Context, m Machine) (Facts, error)
}

// Facts are observed at one moment.
type Facts struct {
	Reachable       bool   // the host answers
	ReachableReason string // CamelCase, e.g. PingOK
	BMCReachable    bool
	BMCReason       string // CamelCase, e.g. RedfishOK
	BMCStuck        bool   // it takes connections and has not answered for long: it is time to restart it, and its configuration allows that

	// Nobody could tell whether the host, or the BMC, answers; the reason says why, e.g.
	// NoSecretsKey. What was known before has not changed.
	ReachableUnknown, BMCUnknown bool

	BootID string // changes with every boot of the host; empty if it cannot be told
	Image  string // what is installed; empty if it cannot be told
}

// Why nobody can tell whether a host answers.
const (
	NotProbed     = "NotProbed"     // its BMC does not know, and nobody else was to be asked
	NoSSHEndpoint = "NoSSHEndpoint" // the same, and the machine has no address to ask it at
)

// NoWitness reports that the BMC answers, and that neither it nor anybody else can ever tell
// whether the host does: it speaks IPMI, say, and there is no SSH.
func (f Facts) NoWitness() bool {
	return f.BMCReachable && f.ReachableUnknown && (f.ReachableReason == NotProbed || f.ReachableReason == NoSSHEndpoint)
}

// PowerState is what a BMC says of a machine's power.
type PowerState string

// The power states.
const (
	PowerUnknown PowerState = ""
	PowerOn      PowerState = "on"
	PowerOff     PowerState = "off"
)

// PowerAction is one press of a power button. There is no "cycle": it could not be
// told afterwards which half of it happened (docs/concepts.md).
type PowerAction string

// The power actions.
const (
	ActionOn      PowerAction = "on"
	ActionSoftOff PowerAction = "soft-off" // asks the operating system
	ActionHardOff PowerAction = "hard-off"
)

// PowerController presses power buttons.
type PowerController interface {
	PowerState(ctx context.Context, m Machine) (PowerState, error)
	// SetPower answers when the request was accepted, which proves nothing: observe PowerState.
	SetPower(ctx context.Context, op Op, m Machine, a PowerAction) error
}

// BootDevice is what a machine boots from next.
type BootDevice struct {
	Mode       string // PXE, HTTP, DISK, VIRTUAL_MEDIA
	Persistent bool
	UEFI       bool
	ModeHidden bool // the BMC does not show whether it is UEFI: IPMI without valid boot flags
}

// The boot modes that a plan asks for.
const (
	BootKeep = "keep" // or empty
	BootUEFI = "uefi"
	BootBIOS = "bios"
)

// InMode returns d with the boot mode for m, which boots as now shows. Without a mode asked for it
// is UEFI if d boots by HTTP, if the BMC shows UEFI, or if the node has it; and legacy if the BMC
// or, where that does not show it, the node says so. If nobody knows it is UEFI: a UEFI machine
// that is told to boot legacy does not boot, and firmware without UEFI has no flag for it.
func (d BootDevice) InMode(asked string, now BootDevice, m Machine) BootDevice {
	node := m.GetNode().GetBootMode()
	switch {
	case asked == BootUEFI, asked == BootBIOS:
		d.UEFI = asked == BootUEFI
	case d.Mode == "HTTP", now.UEFI, node == BootUEFI:
		d.UEFI = true
	default:
		d.UEFI = now.ModeHidden && node != BootBIOS
	}
	return d
}

// BootController reads and sets the next boot device.
type BootController interface {
	BootDevice(ctx context.Context, m Machine) (BootDevice, error)
	SetBootDevice(ctx context.Context, op Op, m Machine, d BootDevice) error
}

// MediaController inserts and ejects virtual media.
type MediaController interface {
	// Media returns the URL of the image that is inserted, or "". It may be spelled in another way
	// than it was given: see SameMedium.
	Media(ctx context.Context, m Machine) (string, error)
	InsertMedia(ctx context.Context, op Op, m Machine, url string) error
	EjectMedia(ctx context.Context, op Op, m Machine) error
}

// InstallSpec says what to put on a machine's disk. An empty Image with Wipe set only wipes.
type InstallSpec struct {
	Image     string
	CloudInit string
	Disk      string
	Wipe      bool
	Boot      string // PXE or HTTP, as the plan has the machine boot for it; empty: PXE
}

// WorkState is how far a piece of work on a host is.
type WorkState string

// The states of installs, commands and joins.
const (
	WorkNone    WorkState = "none" // never started
	WorkRunning WorkState = "running"
	WorkDone    WorkState = "done"
	WorkFailed  WorkState = "failed"
)

// InstallStatus is how far an install is.
type InstallStatus struct {
	State    WorkState
	Progress int    // percent
	Stage    string // what it waits for
	Error    string // when it failed
	Image    string // what is on the disk, when it is done
	Due      string // while it is running: what it cannot go on without, e.g. "power on". StartInstall with the same token does that
	Press    bool   // what is due presses a button of the chassis, which may take its time to show
}

// Imager installs images. Start with a token that was started before does no more than what is due,
// and nothing if nothing is.
type Imager interface {
	StartInstall(ctx context.Context, op Op, m Machine, s InstallSpec) error
	InstallStatus(ctx context.Context, m Machine, token string) (InstallStatus, error)
}

// InstallEnder is implemented by an Imager that boots the machine from something it has to take
// away: it is called when an attempt is over, however it has ended. It may be called again, also by
// another leader.
type InstallEnder interface {
	EndInstall(ctx context.Context, op Op, m Machine) error
}

// Command is what a RemoteExecutor runs.
type Command struct {
	Path    string
	Args    []string
	Script  string // instead of Path and Args
	Env     map[string]string
	User    string
	Timeout time.Duration // the host kills it after that, whatever becomes of the leader
}

// CommandStatus is how far a command is, with its output from an offset on.
type CommandStatus struct {
	State    WorkState // WorkDone when it has exited, with any code
	ExitCode int
	Reason   string // why it failed, when it did not end by itself
	Output   []Output
	Next     int64 // offset for the next call
}

// Output is a piece of a command's output.
type Output struct {
	Stream string // stdout or stderr
	Data   []byte
}

// RemoteExecutor runs commands on the host, durably: a command outlives the caller and is
// found again by its token. Start with a token that was started before does nothing.
type RemoteExecutor interface {
	StartCommand(ctx context.Context, op Op, m Machine, token string, c Command) error
	// CommandStatus answers at once with what there is.
	CommandStatus(ctx context.Context, m Machine, token string, offset int64) (CommandStatus, error)
	// KillCommand ends a command and its children. A token that is not known is OK.
	KillCommand(ctx context.Context, op Op, m Machine, token string) error
}

// NodeStatus is what a cluster says of a machine's node.
type NodeStatus struct {
	Registered bool
	Ready      bool
	Reason     string // CamelCase
	Message    string // in words: what keeps it from being Ready, or what else is wrong

	Node   string            // its name; empty if it cannot be told
	BootID string            // of the host when it last reported; empty if it cannot be told
	Labels map[string]string // nil if they cannot be told
	Taints []string          // key=value:Effect, or key:Effect
}

// JoinSpec says where a host belongs.
type JoinSpec struct {
	ClusterRef string
	Role       string // worker, control-plane
}

// ClusterJoiner joins hosts to a cluster. Join with a token that was started before does nothing.
type ClusterJoiner interface {
	NodeStatus(ctx context.Context, m Machine, clusterRef string) (NodeStatus, error)
	StartJoin(ctx context.Context, op Op, m Machine, s JoinSpec) error
	JoinStatus(ctx context.Context, m Machine, token string) (WorkState, string, error)
}

// JoinEnder is implemented by a ClusterJoiner whose joins leave something behind that opens the
// cluster: it is called when an attempt is over, however it has ended, and takes that away. What of
// the join is still at work it ends. It may be called again, also by another leader.
type JoinEnder interface {
	EndJoin(ctx context.Context, op Op, m Machine, s JoinSpec) error
}

// Drainer sets nodes aside through the API of their cluster. The error for a cluster that nobody
// has registered is a NotAsked.
type Drainer interface {
	Cordon(ctx context.Context, op Op, m Machine, clusterRef string, on bool) error
	// Evict asks once for the pods to leave; force: also for those that nothing would make anew.
	Evict(ctx context.Context, op Op, m Machine, clusterRef string, force bool) (DrainStatus, error)
}

// DrainStatus is how far a drain is. Nothing is left: it is done.
type DrainStatus struct {
	Node    string // empty: the machine has no node there
	Left    int    // pods that are still there and have to leave
	Waiting string // what for: the pods that are leaving, and which budgets forbid others to
}

// NetworkStatus is the network configuration of a host.
type NetworkStatus struct {
	Token     string // of the apply that made it
	Confirmed bool
	Reverted  bool // it was not confirmed in time
}

// NetConfigurator changes the network of a host. What is applied is rolled back by the host
// itself unless it is confirmed within the rollback time, over the new path; a rollback time of
// zero applies it for good. Apply with a token that was applied before does nothing.
type NetConfigurator interface {
	NetworkStatus(ctx context.Context, m Machine) (NetworkStatus, error)
	ApplyNetwork(ctx context.Context, op Op, m Machine, config string, rollback time.Duration) error
	ConfirmNetwork(ctx context.Context, op Op, m Machine, token string) error
}

// Console is a machine's serial console.
type Console interface {
	OpenConsole(ctx context.Context, m Machine) (io.ReadWriteCloser, error)
}

// Settler is implemented by providers whose effects show late: a new leader that finds an intent
// waits that long, from when nothing can be sent any more, before it concludes that nothing was
// done.
type Settler interface {
	Settle(m Machine) time.Duration
}
