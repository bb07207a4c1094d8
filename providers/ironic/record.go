package ironic

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"

	"github.com/holdfast-metal/holdfast/providers"
)

// record is what stands under extra.holdfast of a node: which attempt installs, and how far it is.
// It is written before each change of the provision state, so that whoever leads next sees from the
// node alone what was asked and what comes next.
type record struct {
	Token string `json:"token"`
	Image string `json:"image,omitempty"` // as the plan names it
	Todo  []verb `json:"todo"`
	At    int    `json:"at"`    // which of them
	From  string `json:"from"`  // the provision state before it, …
	Since string `json:"since"` // … and since when it was in it
}

func (r *record) verb() verb { return r.Todo[r.At] }
func (r *record) last() bool { return r.At == len(r.Todo)-1 }

// record reads what stands on a node; nil if there is none, or what is there is not ours.
func (n *node) record() *record {
	var r record
	if len(n.Extra.Holdfast) == 0 || json.Unmarshal(n.Extra.Holdfast, &r) != nil || r.Token == "" || r.At < 0 || r.At >= len(r.Todo) {
		return nil
	}
	return &r
}

// patch writes a record, and for a deployment what to deploy: undeploying has erased what stood
// there.
func (r *record) patch(image map[string]any) nodes.UpdateOpts {
	u := nodes.UpdateOpts{nodes.UpdateOperation{Op: nodes.AddOp, Path: "/extra/holdfast", Value: r}}
	if v := r.verb(); v == deploy || v == rebuild {
		u = append(u, nodes.UpdateOperation{Op: nodes.AddOp, Path: "/instance_info", Value: image})
	}
	return u
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

// way is where a verb leads.
type way struct {
	end  string   // it is done
	on   []string // it is under way
	fail []string // it has failed
}

func (v verb) way() way {
	cleaning := []string{"cleaning", "clean wait", "clean hold"}
	switch v {
	case manage:
		return way{"manageable", []string{"verifying"}, []string{"enroll"}}
	case provide:
		return way{"available", cleaning, []string{"clean failed"}}
	case undeploy:
		return way{"available", append(cleaning, "deleting"), []string{"error", "clean failed"}}
	case wipe:
		return way{"manageable", cleaning, []string{"clean failed"}}
	case deploy, rebuild:
		return way{"active", []string{"deploying", "wait call-back", "deploy hold"}, []string{"deploy failed", "error"}}
	}
	return way{}
}

// circles reports whether a verb may end in the state in which it began: only the time then tells
// the one from the other.
func (r *record) circles() bool {
	w := r.verb().way()
	return r.From == w.end || slices.Contains(w.fail, r.From)
}

// plan returns the way from a provision state to an installed image, or to wiped disks. An active
// node is built anew in its place, unless its disks are to be wiped: that takes it out, cleans it
// with the steps of the configuration, and provides it again, which cleans once more as Ironic is
// set up to.
func plan(state string, s providers.InstallSpec) ([]verb, error) {
	var todo []verb
	switch state {
	case "active", "deploy failed", "error":
		if !s.Wipe {
			return []verb{rebuild}, nil
		}
		todo = []verb{undeploy, manage}
	case "available":
		if !s.Wipe {
			return []verb{deploy}, nil
		}
		todo = []verb{manage}
	case "manageable":
	case "enroll", "clean failed", "inspect failed", "adopt failed":
		todo = []verb{manage}
	case "rescue", "rescue failed", "unrescue failed", "service failed", "service hold":
		return nil, providers.Errorf(providers.Unsupported, "install", "the node is in state %q, in which somebody put it: end that first", state)
	default:
		return nil, providers.Errorf(providers.Transient, "install", "the node is in state %q: something else is at work on it", clip(state))
	}
	if s.Wipe {
		todo = append(todo, wipe)
	}
	if s.Image != "" {
		todo = append(todo, provide, deploy)
	}
	if len(todo) == 0 {
		return nil, fmt.Errorf("plan an install from state %q: there is nothing to do", state)
	}
	return todo, nil
}

// rootDevice puts a disk rule into Ironic's words, its root device hints. What is no list of
// conditions is a disk's name, as plans of before have it. By itself Ironic takes the smallest
// disk.
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
			return nil, fmt.Errorf("disk rule %q: Ironic picks no disk by %s here: use name, serial, wwn, rotational, or by=smallest alone", rule, key)
		}
	}
	return hints, nil
}

// instanceInfo is what instance_info has to say of an image, and of the disk it goes on: its root
// device hints.
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
