package ironic

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"

	"github.com/holdfast-metal/holdfast/providers"
)

// scheme is the scheme of a bmc_endpoint that names a node.
const scheme = "ironic://"

// nodeOf returns the name or UUID of a machine's node.
func nodeOf(m providers.Machine) (string, error) {
	id := m.GetMachineId()
	if e := m.GetSpec().GetBmcEndpoint(); e != "" {
		var ok bool
		if id, ok = strings.CutPrefix(e, scheme); !ok {
			return "", errors.New("bmc_endpoint is not that of an Ironic node: want ironic://NAME or " +
				"ironic://UUID, or none if the node has the name of the machine")
		}
	}
	// Names consist of unreserved characters (RFC 3986). Any other character could lead to another
	// resource.
	if id == "" || id == "." || id == ".." || url.PathEscape(id) != id {
		return "", fmt.Errorf("%q is not a name or UUID of an Ironic node", clip(id))
	}
	return id, nil
}

// node has the fields we need of a node (Ironic's bare metal API, "Show Node Details").
type node struct {
	UUID               string          `json:"uuid"`
	PowerState         string          `json:"power_state"`
	TargetPowerState   string          `json:"target_power_state"`
	ProvisionState     string          `json:"provision_state"`
	ProvisionUpdatedAt string          `json:"provision_updated_at"`
	Maintenance        bool            `json:"maintenance"`
	MaintenanceReason  string          `json:"maintenance_reason"`
	Fault              string          `json:"fault"`
	LastError          string          `json:"last_error"`
	Reservation        string          `json:"reservation"`
	InstanceUUID       string          `json:"instance_uuid"`
	BootMode           string          `json:"boot_mode"`
	CleanStep          step            `json:"clean_step"`
	DeployStep         step            `json:"deploy_step"`
	Traits             []string        `json:"traits"`
	InternalInfo       json.RawMessage `json:"driver_internal_info"`
	Extra              struct {
		Holdfast json.RawMessage `json:"holdfast"`
	} `json:"extra"`
	Properties json.RawMessage `json:"properties"`

	at  time.Time // when it was read
	now time.Time // by Ironic's clock
}

// step is a step of cleaning or deploying.
type step struct {
	Interface string `json:"interface"`
	Step      string `json:"step"`
}

func (s step) String() string {
	if s.Step == "" {
		return ""
	}
	return ", " + s.Interface + "." + s.Step
}

// fresh is the maximum age of a node that an effect is based on. It is shorter than the first poll
// of a new leader (docs/decisions/0004), so the node is never one of an earlier term.
const fresh = time.Second

// read reads a node and keeps it for an effect that follows.
func (p *Provider) read(ctx context.Context, s *session, id string) (*node, error) {
	n := &node{at: time.Now()}
	res := nodes.Get(ctx, s.ServiceClient, id)
	if err := res.ExtractInto(n); err != nil {
		return nil, err
	}
	if n.UUID == "" {
		return nil, fmt.Errorf("read node %s: %w at the endpoint", id, errNoIronic)
	}
	var err error
	if n.now, err = http.ParseTime(res.Header.Get("Date")); err != nil {
		n.now = n.at
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen[id] = n
	return n, nil
}

// known returns a node if it was read a moment ago, else it reads it.
func (p *Provider) known(ctx context.Context, s *session, id string) (*node, error) {
	p.mu.Lock()
	n := p.seen[id]
	p.mu.Unlock()
	if n != nil && time.Since(n.at) < fresh {
		return n, nil
	}
	return p.read(providers.Unhurried(ctx), s, id)
}

func (p *Provider) forget(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.seen, id)
}

// unlocked waits until Ironic has unlocked a node.
func (p *Provider) unlocked(ctx context.Context, s *session, id string, until time.Time) error {
	wait := 100 * time.Millisecond
	for {
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return ctx.Err()
		}
		n, err := p.read(ctx, s, id)
		if err != nil || n.Reservation == "" {
			return err
		}
		if time.Now().After(until) {
			return fmt.Errorf("node is locked by %s", clip(n.Reservation))
		}
		wait = min(2*wait, time.Second)
	}
}

// sick returns an error for a node that Ironic has given up on, or that a user has put into
// maintenance.
func (n *node) sick(op string) error {
	if !n.Maintenance {
		return nil
	}
	reason := clip(strings.TrimSpace(n.MaintenanceReason + " " + n.LastError))
	if n.Fault == "power failure" { // Ironic keeps polling the BMC and ends the maintenance itself
		err := blame(op, "it cannot reach the BMC: "+reason)
		if providers.ClassOf(err) == providers.Auth {
			return err
		}
		return providers.Errorf(providers.Transient, op, "Ironic cannot reach the BMC: %s", reason)
	}
	return providers.Errorf(providers.Unsupported, op, "the node is in maintenance (%s): "+
		"end it with: openstack baremetal node maintenance unset %s", reason, n.UUID)
}

// powerChangedAt returns the time of Ironic's last power change, which replaces the boot id. It is
// empty if Ironic does not report it.
func (n *node) powerChangedAt() string {
	var info struct {
		At string `json:"last_power_state_change"`
	}
	if json.Unmarshal(n.InternalInfo, &info) != nil {
		return ""
	}
	return info.At
}

// uefi reports whether the node boots by UEFI. known is false if its boot mode is not set.
func (n *node) uefi() (uefi, known bool) {
	mode := n.BootMode
	if mode == "" {
		var prop struct {
			Capabilities any `json:"capabilities"`
		}
		if json.Unmarshal(n.Properties, &prop) == nil {
			if s, ok := prop.Capabilities.(string); ok {
				for c := range strings.SplitSeq(s, ",") {
					if v, ok := strings.CutPrefix(strings.TrimSpace(c), "boot_mode:"); ok {
						mode = v
					}
				}
			}
		}
	}
	return mode == "uefi", mode != ""
}
