package ironic

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"

	"github.com/holdfast-metal/holdfast/providers"
)

// record is stored under extra.holdfast of a node: the attempt that installs it, and its state. It
// is written before each change of the provision state. So the next leader sees from the node alone
// which change was requested and which one is next.
type record struct {
	Token string `json:"token"`
	Image string `json:"image,omitempty"` // as the plan names it
	Steps []verb `json:"steps"`
	At    int    `json:"at"`    // index in Steps
	From  string `json:"from"`  // provision state before the current verb
	Since string `json:"since"` // time since when the node was in From
}

func (r *record) verb() verb { return r.Steps[r.At] }
func (r *record) last() bool { return r.At == len(r.Steps)-1 }

// record returns the record of a node, or nil if there is none of ours.
func (n *node) record() *record {
	var r record
	err := json.Unmarshal(n.Extra.Holdfast, &r)
	if len(n.Extra.Holdfast) == 0 || err != nil || r.Token == "" || r.At < 0 || r.At >= len(r.Steps) {
		return nil
	}
	return &r
}

// patch returns the changes that write a record. For a deployment they include the image, because
// an undeployment erases instance_info.
func (r *record) patch(image map[string]any) nodes.UpdateOpts {
	u := nodes.UpdateOpts{nodes.UpdateOperation{Op: nodes.AddOp, Path: "/extra/holdfast", Value: r}}
	if v := r.verb(); v == deploy || v == rebuild {
		u = append(u, nodes.UpdateOperation{Op: nodes.AddOp, Path: "/instance_info", Value: image})
	}
	return u
}

// erases reports whether a verb of the record that changes the disks has begun. begun is whether
// the current one has.
func (r *record) erases(begun bool) bool {
	for i, v := range r.Steps[:r.At+1] {
		if v != manage && (i < r.At || begun) {
			return true
		}
	}
	return false
}

// verb is a target of a provision state (Ironic's state machine).
type verb string

const (
	manage   verb = "manage"
	provide  verb = "provide"
	undeploy verb = "deleted"
	wipe     verb = "clean"
	deploy   verb = "active"
	rebuild  verb = "rebuild"
)

// transition has the states that a verb leads to.
type transition struct {
	end  string   // final state
	on   []string // states while it is under way
	fail []string // states after a failure
}

func (v verb) transition() transition {
	cleaning := []string{"cleaning", "clean wait", "clean hold"}
	switch v {
	case manage:
		return transition{"manageable", []string{"verifying"}, []string{"enroll"}}
	case provide:
		return transition{"available", cleaning, []string{"clean failed"}}
	case undeploy:
		return transition{"available", append(cleaning, "deleting"), []string{"error", "clean failed"}}
	case wipe:
		return transition{"manageable", cleaning, []string{"clean failed"}}
	case deploy, rebuild:
		return transition{"active", []string{"deploying", "wait call-back", "deploy hold"},
			[]string{"deploy failed", "error"}}
	}
	return transition{}
}

// endsWhereItBegan reports whether a verb may end in the state in which it began. Then only the
// time shows whether it has ended.
func (r *record) endsWhereItBegan() bool {
	w := r.verb().transition()
	return r.From == w.end || slices.Contains(w.fail, r.From)
}

// plan returns the verbs from a provision state to an installed image, or to wiped disks. An active
// node is rebuilt in place, unless its disks are to be wiped. In that case it is undeployed,
// cleaned with the configured steps, and provided again, which cleans it once more if Ironic is
// configured to.
func plan(state string, s providers.InstallSpec) ([]verb, error) {
	var verbs []verb
	switch state {
	case "active", "deploy failed", "error":
		if !s.Wipe {
			return []verb{rebuild}, nil
		}
		verbs = []verb{undeploy, manage}
	case "available":
		if !s.Wipe {
			return []verb{deploy}, nil
		}
		verbs = []verb{manage}
	case "manageable":
	case "enroll", "clean failed", "inspect failed", "adopt failed":
		verbs = []verb{manage}
	case "rescue", "rescue failed", "unrescue failed", "service failed", "service hold":
		return nil, providers.Errorf(providers.Unsupported, "install",
			"the node is in state %q, which a user has requested: end it first", state)
	default:
		return nil, providers.Errorf(providers.Transient, "install",
			"the node is in state %q: another operation is running on it", clip(state))
	}
	if s.Wipe {
		verbs = append(verbs, wipe)
	}
	if s.Image != "" {
		verbs = append(verbs, provide, deploy)
	}
	if len(verbs) == 0 {
		return nil, fmt.Errorf("plan an install from state %q: nothing to do", state)
	}
	return verbs, nil
}

// rootDevice converts a disk rule to Ironic's root device hints. Text that is not a list of
// conditions is the name of a disk, as in older plans. By default Ironic uses the smallest disk.
func rootDevice(rule string) (map[string]any, error) {
	if rule == "" || rule == "by=smallest" {
		return nil, nil
	}
	if !strings.Contains(rule, "=") {
		return map[string]any{"name": rule}, nil
	}
	hints := map[string]any{}
	for part := range strings.SplitSeq(rule, ",") {
		key, value, _ := strings.Cut(part, "=")
		switch key, value = strings.TrimSpace(key), strings.TrimSpace(value); key {
		case "name":
			hints[key] = "/dev/" + strings.TrimPrefix(value, "/dev/")
		case "serial", "wwn":
			hints[key] = value
		case "rotational":
			hints[key] = value == "true"
		default:
			return nil, fmt.Errorf("disk rule %q: Ironic cannot select a disk by %s: "+
				"use name, serial, wwn, rotational, or by=smallest alone", rule, key)
		}
	}
	return hints, nil
}

// instanceInfo returns the instance_info for an image and its disk, given as root device hints.
func (i Image) instanceInfo(disk map[string]any) map[string]any {
	info := map[string]any{"image_source": i.Source}
	text := func(key, v string) {
		if v != "" {
			info[key] = v
		}
	}
	switch {
	case i.SHA512 != "":
		info["image_os_hash_algo"], info["image_os_hash_value"] = "sha512", i.SHA512
	case i.SHA256 != "":
		info["image_os_hash_algo"], info["image_os_hash_value"] = "sha256", i.SHA256
	}
	text("image_disk_format", i.DiskFormat)
	text("kernel", i.Kernel)
	text("ramdisk", i.Ramdisk)
	if i.RootGB > 0 {
		info["root_gb"] = i.RootGB
	}
	if disk != nil {
		info["root_device"] = disk
	}
	return info
}
