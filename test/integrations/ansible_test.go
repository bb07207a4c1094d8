package integrations

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// ansible returns the environment in which Ansible uses the collection of this repository.
func ansible(t *testing.T, l *lab) []string {
	t.Helper()
	collection, err := filepath.Abs("../../deploy/ansible")
	if err != nil {
		t.Fatal(err)
	}
	where := filepath.Join(l.dir, "collections")
	link := filepath.Join(where, "ansible_collections", "holdfast_metal", "holdfast")
	if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(collection, link); err != nil && !os.IsExist(err) {
		t.Fatal(err)
	}
	return []string{"ANSIBLE_COLLECTIONS_PATH=" + where, "ANSIBLE_LOCALHOST_WARNING=false", "ANSIBLE_NOCOLOR=1",
		"PYTHONDONTWRITEBYTECODE=1", "LC_ALL=C.UTF-8"}
}

func inventory(t *testing.T, l *lab) {
	env := ansible(t, l)
	ask := func(config string) (map[string]json.RawMessage, error) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(l.dir, "test.holdfast.yml"),
			[]byte("plugin: holdfast_metal.holdfast.machines\n"+config), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := l.try(env, "ansible-inventory", "-i", "test.holdfast.yml", "--list")
		var got map[string]json.RawMessage
		if err == nil {
			err = json.Unmarshal([]byte(out), &got)
		}
		return got, err
	}
	got, err := ask("keyed_groups: [{key: holdfast.labels.env, prefix: env}]\ncompose: {rack: holdfast.spec.rack}\n")
	if err != nil {
		t.Fatal(err)
	}
	for group, want := range map[string][]string{"phase_ready": {"m-1", "m-2"}, "pool_gpu": {"m-1"}, "rack_r8": {"m-2"},
		"env_prod": {"m-1"}} {
		var has struct{ Hosts []string }
		if err := json.Unmarshal(got[group], &has); err != nil || !cmp.Equal(has.Hosts, want) {
			t.Errorf("group %s: got %v (%v), want %v", group, has.Hosts, err, want)
		}
	}
	var meta struct {
		Hostvars map[string]struct {
			Host string `json:"ansible_host"`
			User string `json:"ansible_user"`
			Port int    `json:"ansible_port"`
			Rack string `json:"rack"`
		} `json:"hostvars"`
	}
	if err := json.Unmarshal(got["_meta"], &meta); err != nil {
		t.Fatal(err)
	}
	m := meta.Hostvars["m-1"]
	if m.Host != "10.0.0.1" || m.User != "admin" || m.Port != 2222 || m.Rack != "r7" ||
		meta.Hostvars["m-2"].Host != "10.0.0.2" {
		t.Errorf("variables: got %+v", meta.Hostvars)
	}
	if got, err = ask("filter: rack = r8\n"); err != nil || strings.Contains(string(got["_meta"]), `"m-1"`) ||
		!strings.Contains(string(got["_meta"]), `"m-2"`) {
		t.Errorf("with a filter: got %s (%v), want only m-2", got["_meta"], err)
	}
	env = append(env, l.otherCluster())
	if got, err = ask("context: lab\ntimeout: 20\n"); err != nil || !strings.Contains(string(got["_meta"]), `"m-1"`) {
		t.Errorf("with a context: got %s (%v), want m-1", got["_meta"], err)
	}
}

func lookup(t *testing.T, l *lab) {
	env := ansible(t, l)
	render := func(message string) (string, error) {
		return l.try(env, "ansible", "localhost", "-m", "ansible.builtin.debug", "-a", "msg='"+message+"'")
	}
	out, err := render(`{{ lookup("holdfast_metal.holdfast.machines", "m-1").spec.rack }} {{ query("holdfast_metal.holdfast.machines", filter="rack = r8") | map(attribute="machine_id") | join(",") }}`)
	if want := `"msg": "r7 m-2"`; err != nil || !strings.Contains(out, want) {
		t.Errorf("got %s (%v), want %s", out, err, want)
	}
	_, err = render(`{{ lookup("holdfast_metal.holdfast.machines", "m-9") }}`)
	if err == nil || !strings.Contains(err.Error(), "m-9") || !strings.Contains(err.Error(), "not found") {
		t.Errorf("unknown machine: got %v, want the error of the cluster", err)
	}
	env = append(env, l.otherCluster())
	out, err = render(`{{ lookup("holdfast_metal.holdfast.machines", "m-1", context="lab", timeout=20).spec.rack }}`)
	if want := `"msg": "r7"`; err != nil || !strings.Contains(out, want) {
		t.Errorf("with a context: got %s (%v), want %s", out, err, want)
	}
}

// preflight checks that a misspelled name in an inventory, or a missing binary, ends a playbook
// with the name and the remedy, and does not pass as a default.
func preflight(t *testing.T, l *lab) {
	playbooks, err := filepath.Abs("../../deploy/ansible/playbooks")
	if err != nil {
		t.Fatal(err)
	}
	env := append(ansible(t, l), "ANSIBLE_CONFIG="+filepath.Join(playbooks, "..", "ansible.cfg"))
	const host = ":\n  hosts: {n1: {ansible_host: 127.0.0.1, ansible_connection: local}}\n  vars: {"
	for _, tt := range []struct{ name, playbook, inventory, args, want string }{
		{"variable", "preflight", "holdfast_peers" + host + "holdfast_clustr: prod}\n", "",
			"n1: unknown variable holdfast_clustr: want one like holdfast_cluster"},
		{"variable of the command line", "preflight", "holdfast_peers" + host + "holdfast_cluster: prod}\n",
			"-e holdfast_binry=/bin/false", "unknown variable holdfast_binry: want one like holdfast_binary"},
		{"group", "site", "holdfast_peer" + host + "holdfast_cluster: prod}\n", "",
			"no host in the group holdfast_peers; its groups are holdfast_peer: name the group so, or set holdfast_group"},
		{"group of agents", "agents", "holdfast_agent" + host + "}\n", "",
			"no host in the group holdfast_agents; its groups are holdfast_agent: name the group so, or set holdfast_agents_"},
		{"binary", "preflight", "holdfast_peers" + host + "holdfast_cluster: prod}\n", "-e holdfast_binary=/missing/holdfast",
			"/missing/holdfast does not run here (there is no such file): build it with make build, or set holdfast_binary"},
	} {
		file := filepath.Join(l.dir, "inventory.yml")
		if err := os.WriteFile(file, []byte(tt.inventory), 0o600); err != nil {
			t.Fatal(err)
		}
		args := append([]string{"-i", file, "-e", "ansible_become=false", filepath.Join(playbooks, tt.playbook+".yml")},
			strings.Fields(tt.args)...)
		if _, err := l.try(env, "ansible-playbook", args...); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.want)
		}
	}
}

// otherCluster stores a context of the lab's peer, and returns a variable that names another
// cluster. A context that an option names must have priority over it.
func (l *lab) otherCluster() string {
	l.Helper()
	l.run("holdfast", "context", "set", "lab", "--addr", l.grpc)
	return "HOLDFAST_ADDR=127.0.0.1:1"
}
