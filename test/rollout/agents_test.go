package rollout

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
	"github.com/holdfast-metal/holdfast/test/program"
)

// enrolls installs agents on two hosts. One is unknown and enrolls with a token of its pool; the
// inventory maps the other one to a machine.
func (l *lab) enrolls(t *testing.T) {
	agent, err := (program.Build{Package: "agent/holdfast-agent", Version: "v0.0.2"}).Into(t.Context(),
		filepath.Join(l.dir, "agent"))
	if err != nil {
		t.Fatal(err)
	}
	c := l.client(t)
	if _, err := holdfastv1.NewPoolServiceClient(c.Conn()).CreatePool(t.Context(),
		&holdfastv1.CreatePoolRequest{Pool: &holdfastv1.Pool{PoolId: "hosts"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Machines().RegisterMachine(t.Context(), &holdfastv1.RegisterMachineRequest{Machine: &holdfastv1.Machine{
		MachineId: "m-known", Spec: &holdfastv1.MachineSpec{Pool: "hosts"}}}); err != nil {
		t.Fatal(err)
	}
	play := func(host int, more ...string) int {
		t.Helper()
		return l.mustPlay(t, "agents.yml",
			append([]string{"-e", "holdfast_agents_group=" + l.hosts[host], "-e", "holdfast_agent_pool=hosts",
				"-e", "holdfast_agent_binary=" + agent, "-e", `{"holdfast_agent_servers": ["https://` + l.address(host) +
					`:7401"]}`}, more...)...)
	}
	play(1)
	play(2, "-e", "holdfast_agent_machine_id=m-known")

	ready := map[string]*holdfastv1.Machine{}                                              // by host
	for deadline := time.Now().Add(time.Minute); len(ready) < 2; time.Sleep(time.Second) { // sleep: between polls
		if time.Now().After(deadline) {
			t.Fatalf("ready agents: got %v, want two", ready)
		}
		list, err := holdfastv1.NewAgentServiceClient(c.Conn()).ListAgentMachines(t.Context(),
			&holdfastv1.ListAgentMachinesRequest{PoolName: "hosts"})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range list.GetMachines() {
			ready[m.GetAgent().GetHostname()] = m
		}
	}
	if id := ready["n2"].GetAgent().GetTokenId(); id == "" {
		t.Errorf("agent of n2: got %v, want it enrolled", ready["n2"])
	}
	if id := ready["n3"].GetMachineId(); id != "m-known" {
		t.Errorf("machine of the agent of n3: got %q, want m-known", id)
	}
	if n := play(1); n != 0 {
		t.Errorf("second run of agents.yml: got %d changes, want 0", n)
	}
	// An enrolled agent ignores another token in the file.
	l.ssh(t, 1, "echo nothing > /etc/holdfast-agent/token && systemctl restart holdfast-agent")
	status := "systemctl show -p StatusText --value holdfast-agent"
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Second) { // sleep: between polls
		got := l.ssh(t, 1, status)
		if strings.Contains(got, " is ready") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("status of the agent of n2: got %q, want it ready with its own token", got)
		}
	}
	for _, host := range []int{1, 2} { // the teardown of the peers keeps the agents
		l.ssh(t, host, "systemctl disable --now holdfast-agent; rm -rf /etc/holdfast-agent "+
			"/etc/systemd/system/holdfast-agent.service /usr/local/bin/holdfast-agent /var/lib/private/holdfast-agent")
	}
}
