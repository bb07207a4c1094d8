// Package providers defines what Holdfast needs of hardware, in small capability interfaces, and
// picks the provider of a machine. A provider implements the capabilities it has. A run is refused
// at its start if a step needs a capability that the provider lacks.
//
// Providers know machines and attempts. They must not know the state of runs, the FSM or the
// cluster (CONTRIBUTING.md). They must not retry effects: only the executor may decide that,
// because only the record shows what was done.
//
// # In time or not at all
//
// A leader may be stopped between its last check of the cluster and an effect. When it continues,
// the next leader may have acted, so it must not send the effect. Therefore the context of every
// call that changes something has a not-after time, at most half a second away
// (docs/decisions/0004). A provider
//
//   - checks that time (InTime) right before the bytes of the effect leave, after everything slow:
//     connecting, logging in, queueing for the BMC. For HTTP, package guard checks it in the last
//     line before the system call;
//   - returns an error of class Late if the time has passed, and only if nothing was done. The
//     executor then checks with the cluster and calls again if it still leads. Connections opened
//     meanwhile are kept, so that the next call is in time;
//   - passes the time to hardware that can refuse late requests;
//   - keeps the effect in transit for at most DeliverTime. Any further delay, such as a helper
//     program that sends the request, is part of its Settle.
package providers

import (
	"context"
	"io"
	"strconv"
	"time"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// Machine is the machine that a call is for. Providers must not change it.
type Machine = *holdfastv1.Machine

// Provider is one configured instance. It implements one or more of the capability interfaces
// below.
type Provider interface {
	// Kind returns the provider's kind, e.g. "fake".
	Kind() string
}

// Op identifies the attempt that an effect belongs to. Providers pass it to hardware that can
// store it, so that effects can be told apart afterwards.
type Op struct {
	RunID   string
	Step    string
	Attempt int32
	Epoch   uint64 // leader epoch; zero if no leader is involved
}

// Token returns the name of the attempt. It stays the same when another leader adopts the attempt.
func (o Op) Token() string { return o.RunID + "-" + o.Step + "-" + strconv.Itoa(int(o.Attempt)) }

// Inspector observes a machine. It must never change anything.
type Inspector interface {
	Inspect(ctx context.Context, m Machine) (Facts, error)
}

// Facts is the result of one observation of a machine.
type Facts struct {
	Reachable       bool   // the host answers
	ReachableReason string // CamelCase, e.g. PingOK
	BMCReachable    bool
	BMCReason       string // CamelCase, e.g. RedfishOK
	BMCMessage      string // in words, if the BMC is not reachable
	BMCSilent       bool   // it accepts connections, has been silent for long, and may be reset

	// It could not be determined whether the host, or the BMC, answers. The reason field holds the
	// cause, e.g. NoSecretsKey. Earlier observations remain valid.
	ReachableUnknown, BMCUnknown bool

	Power  PowerState // unknown if this observation does not include it: read PowerState
	BootID string     // changes with every boot of the host; empty if unknown
	Image  string     // the installed image; empty if unknown
}

// Reasons of ReachableUnknown.
const (
	NotProbed       = "NotProbed"       // the BMC does not know, and the host was not to be probed
	NoSSHEndpoint   = "NoSSHEndpoint"   // the BMC does not know, and the machine has no SSH endpoint
	BootNotReported = "BootNotReported" // the BMC reports a boot that does not go on, as some always do
)

// HostUnobservable reports whether the BMC answers but nothing can ever show if the host does. An
// example is a BMC with IPMI only, on a machine without SSH.
func (f Facts) HostUnobservable() bool {
	return f.BMCReachable && f.ReachableUnknown &&
		(f.ReachableReason == NotProbed || f.ReachableReason == NoSSHEndpoint || f.ReachableReason == BootNotReported)
}

// PowerState is the power state of a machine, as its BMC reports it.
type PowerState string

// The power states.
const (
	PowerUnknown PowerState = ""
	PowerOn      PowerState = "on"
	PowerOff     PowerState = "off"
)

// PowerAction is one press of a power button. There is no "cycle": after a failure it would be
// unknown which half of it happened (docs/concepts.md).
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
	// SetPower returns once the BMC has accepted the request. The power may change later, or not
	// at all: poll PowerState.
	SetPower(ctx context.Context, op Op, m Machine, a PowerAction) error
}

// BootDevice is the next boot device of a machine.
type BootDevice struct {
	Mode       string // PXE, HTTP, DISK, VIRTUAL_MEDIA
	Persistent bool
	UEFI       bool
	ModeHidden bool // the BMC does not show the boot mode: IPMI without valid boot flags
}

// The boot modes that a plan can ask for.
const (
	BootKeep = "keep" // or empty
	BootUEFI = "uefi"
	BootBIOS = "bios"
)

// InMode returns d with the boot mode for m. now is the current boot device. If the plan asks for
// no mode, the mode is UEFI if d boots by HTTP, if the BMC shows UEFI, or if the node's record
// does. It is legacy if the BMC shows legacy or, if the BMC hides the mode, the node's record does.
// Otherwise it is UEFI: a UEFI machine that is set to legacy does not boot, and firmware without
// UEFI ignores the flag.
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
	// Media returns the URL of the inserted image, or "". The BMC may spell it differently: compare
	// it with SameMedium.
	Media(ctx context.Context, m Machine) (string, error)
	InsertMedia(ctx context.Context, op Op, m Machine, url string) error
	EjectMedia(ctx context.Context, op Op, m Machine) error
}

// InstallSpec describes an installation. If Image is empty and Wipe is set, the disk is only wiped.
type InstallSpec struct {
	Image     string
	CloudInit string
	Disk      string
	Wipe      bool
	Boot      string // PXE or HTTP, as the plan boots the machine; empty: PXE
}

// WorkState is the state of an install, a command or a join.
type WorkState string

// The states of installs, commands and joins.
const (
	WorkNone    WorkState = "none" // never started
	WorkRunning WorkState = "running"
	WorkDone    WorkState = "done"
	WorkFailed  WorkState = "failed"
)

// InstallStatus is the state of an install.
type InstallStatus struct {
	State    WorkState
	Progress int    // percent
	Stage    string // what the install waits for
	Error    string // set if it failed
	Image    string // the image on the disk, once it is done
	Due      string // while running: a pending action, e.g. "power on"; StartInstall again does it
	Press    bool   // Due presses a button of the chassis, which may show late
	Erases   bool   // the disks may already be changed, so to stop now saves nothing
}

// Imager installs images. If the token was started before, StartInstall only does what
// InstallStatus shows as due.
type Imager interface {
	StartInstall(ctx context.Context, op Op, m Machine, s InstallSpec) error
	InstallStatus(ctx context.Context, m Machine, token string) (InstallStatus, error)
}

// InstallEnder is implemented by an Imager that must remove its boot source after an attempt.
// EndInstall is called when the attempt has ended, with any outcome. It may be called again, also
// by another leader.
type InstallEnder interface {
	EndInstall(ctx context.Context, op Op, m Machine) error
}

// Command is a command for a RemoteExecutor.
type Command struct {
	Path    string
	Args    []string
	Script  string // instead of Path and Args
	Env     map[string]string
	User    string
	Timeout time.Duration // the host kills the command after that, even without a leader
}

// CommandStatus is the state of a command, with its output from an offset on.
type CommandStatus struct {
	State    WorkState // WorkDone when it has exited, with any code
	ExitCode int
	Reason   string // why it failed, if it did not exit by itself
	Output   []Output
	Next     int64 // offset for the next call
}

// Output is a piece of a command's output.
type Output struct {
	Stream string // stdout or stderr
	Data   []byte
}

// RemoteExecutor runs commands on the host. Commands are durable: one outlives its caller and is
// found again by its token. StartCommand with a known token does nothing.
type RemoteExecutor interface {
	StartCommand(ctx context.Context, op Op, m Machine, token string, c Command) error
	// CommandStatus returns at once with the output so far.
	CommandStatus(ctx context.Context, m Machine, token string, offset int64) (CommandStatus, error)
	// KillCommand ends a command and its children. An unknown token is not an error.
	KillCommand(ctx context.Context, op Op, m Machine, token string) error
}

// NodeStatus is the state of a machine's node, as its cluster reports it.
type NodeStatus struct {
	Registered bool
	Ready      bool
	Reason     string // CamelCase
	Message    string // why it is not Ready, or what else is wrong

	Node   string            // name of the node; empty if unknown
	BootID string            // of the host at its last report; empty if unknown
	Labels map[string]string // nil if unknown
	Taints []string          // key=value:Effect, or key:Effect
}

// JoinSpec is the cluster that a host joins, and its role there.
type JoinSpec struct {
	ClusterRef string
	Role       string // worker, control-plane
}

// ClusterJoiner joins hosts to a cluster. StartJoin with a known token does nothing.
type ClusterJoiner interface {
	NodeStatus(ctx context.Context, m Machine, clusterRef string) (NodeStatus, error)
	StartJoin(ctx context.Context, op Op, m Machine, s JoinSpec) error
	JoinStatus(ctx context.Context, m Machine, token string) (WorkState, string, error)
}

// JoinEnder is implemented by a ClusterJoiner whose joins leave credentials behind that give access
// to the cluster. EndJoin is called when an attempt has ended, with any outcome. It removes them
// and stops the parts of the join that still run. It may be called again, also by another leader.
type JoinEnder interface {
	EndJoin(ctx context.Context, op Op, m Machine, s JoinSpec) error
}

// Drainer cordons and drains nodes through the API of their cluster. If the cluster is not
// registered, the error is a NotAsked.
type Drainer interface {
	Cordon(ctx context.Context, op Op, m Machine, clusterRef string, on bool) error
	// Evict asks the pods to leave, once. With force it includes pods that no controller recreates.
	Evict(ctx context.Context, op Op, m Machine, clusterRef string, force bool) (DrainStatus, error)
}

// DrainStatus is the state of a drain. The drain is done if Left is zero.
type DrainStatus struct {
	Node    string // empty: the machine has no node in the cluster
	Left    int    // pods that still have to leave
	Waiting string // the pods that are leaving, and the budgets that block others
}

// NetworkStatus is the network configuration of a host.
type NetworkStatus struct {
	Token     string // of the apply that set it
	Confirmed bool
	Reverted  bool // rolled back, because it was not confirmed in time
}

// NetConfigurator changes the network of a host. The host rolls a change back unless it is
// confirmed over the new path within the rollback time. A rollback time of zero applies it
// permanently. ApplyNetwork with a known token does nothing.
type NetConfigurator interface {
	NetworkStatus(ctx context.Context, m Machine) (NetworkStatus, error)
	ApplyNetwork(ctx context.Context, op Op, m Machine, config string, rollback time.Duration) error
	ConfirmNetwork(ctx context.Context, op Op, m Machine, token string) error
}

// Console is a machine's serial console.
type Console interface {
	OpenConsole(ctx context.Context, m Machine) (io.ReadWriteCloser, error)
}

// Settler is implemented by providers whose effects show late. A new leader that finds an intent
// waits for that time, counted from when nothing more can be sent. Only then does it conclude that
// the effect did not happen.
type Settler interface {
	Settle(m Machine) time.Duration
}
