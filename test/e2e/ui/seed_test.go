package ui

import (
	"fmt"
	"strings"
)

// failing returns machines of a fleet whose effects all fail.
func failing(n int) string {
	var all strings.Builder
	for i := range n {
		fmt.Fprintf(&all, "  x-%d: {fail: 1}\n", i+1)
	}
	return all.String()
}

// seedUnkind registers machines that fail, hang, are broken or have many labels, and creates what
// the lists show. It returns the ids of a failed run and of a stopped wave.
func seedUnkind(l *lab, long string) (run, wave string) {
	l.holdfast("pool", "create", "gpu")
	seedMachines(l)
	l.write("plan.yaml", "plan_id: site/reboot-once\nsteps:\n"+
		"- {name: reboot-without-another-attempt-after-the-first, reboot: {force: true}, max_retries: 0}\n")
	l.holdfast("plan", "apply", "-f", "plan.yaml")
	run = strings.Fields(l.holdfast("run", "start", "m-03", "--plan", "site/reboot-once", "-o", "name"))[0]
	l.holdfast("run", "start", "m-04", "--type", "REBOOT", "-o", "name")
	l.holdfast("machine", "set-phase", "m-05", "MAINTENANCE", "--comment", strings.ReplaceAll(long, " ", "_"))
	l.until("the failed run", func() bool {
		return strings.Contains(l.holdfast("run", "get", run, "-o", "json"), `"FAILED"`)
	})
	seedLists(l, long)
	seedWaves(l)
	return run, "wave-of-failing-machines"
}

func seedMachines(l *lab) {
	var all strings.Builder
	for i := range 12 {
		fmt.Fprintf(&all, "---\nmachine_id: m-%02d\n", i+1)
		fmt.Fprintf(&all, "spec: {provider: fake, rack: r%d, location: fra1, pool: gpu, serial: SN-%d}\n", i/4+1, i)
	}
	for i := range 6 {
		fmt.Fprintf(&all, "---\nmachine_id: x-%d\nspec: {provider: fake, rack: r4, pool: gpu}\n", i+1)
	}
	all.WriteString("---\nmachine_id: m-with-an-identifier-that-is-as-long-as-one-can-possibly-be-0001\n")
	all.WriteString("spec: {provider: fake, pool: gpu}\n")
	l.write("machines.yaml", all.String())
	l.holdfast("machine", "register", "-f", "machines.yaml")
	labels := []string{"machine", "update", "m-02"}
	for i := range 40 {
		labels = append(labels, "--label", fmt.Sprintf("label-%02d=%s", i, strings.Repeat("value", i%12+1)))
	}
	l.holdfast(labels...)
}

// seedLists creates entries of the lists that are long or broken.
func seedLists(l *lab, long string) {
	old := strings.Fields(l.holdfast("token", "create", "--name", "revoked", "--role", "viewer", "--pool", "gpu",
		"--comment", long, "-o", "jsonpath={.token.token_id}"))
	l.holdfast("token", "revoke", old[0], "--yes")
	l.holdfast("webhook", "put", "chat", "--url", "https://127.0.0.1:1/hooks/"+strings.Repeat("0123456789", 9), "--filter",
		`type = "run.failed" AND machine_id = "x-*"`)
	l.holdfast("image", "add", "debian-13", "--description", long, "--disk",
		"https://images.example/releases/13/debian-13-genericcloud-amd64-daily.raw.zst", "--sha256", strings.Repeat("a", 64))
}

// seedWaves runs a wave that succeeds, of machines of which one is then switched off, and one that
// fails on enough machines for its plan to be held.
func seedWaves(l *lab) {
	l.holdfast("run", "start", "--selector", `rack = "r3"`, "--type", "REPAVE", "--yes", "--wait")
	l.holdfast("machine", "power", "off", "m-11", "--yes")
	l.holdfast("run", "start", "--selector", `rack = "r4"`, "--plan", "site/reboot-once", "--max-parallel", "6",
		"--max-failures", "4", "--wave", "wave-of-failing-machines", "--detach", "--yes")
	l.until("the held plan", func() bool {
		return strings.Contains(l.holdfast("plan", "get", "site/reboot-once", "-o", "json"), `"brake"`)
	})
	l.until("the machine that is off", func() bool {
		return strings.Contains(l.holdfast("machine", "get", "m-11", "-o", "json"), `"OFF"`)
	})
}
