package fleet

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/holdfast-metal/holdfast/fsm/internal/core"
	"github.com/holdfast-metal/holdfast/fsm/internal/events"
	"github.com/holdfast-metal/holdfast/fsm/internal/lex"
	"github.com/holdfast-metal/holdfast/fsm/internal/refusal"
	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// MaxAgentText bounds a text field of an agent, in bytes.
const MaxAgentText = 255

// checkAgent returns the violations of a registration.
func checkAgent(in *holdfastv1.RegisterAgentRequest) []refusal.FieldViolation {
	var bad refusal.Violations
	if !lex.ValidName(in.GetMachineId(), 64) {
		bad.Add("machine_id", "is not 1 to 64 letters, digits, '.', '_', '-' or ':'")
	}
	for _, f := range []struct{ name, value string }{
		{"hostname", in.GetHostname()}, {"provider_name", in.GetProviderName()}, {"private_ip", in.GetPrivateIp()},
	} {
		if len(f.value) > MaxAgentText || !lex.SingleLine(f.value) {
			bad.Add(f.name, "must be one line of at most 255 bytes, without control and invisible characters")
		}
	}
	if in.GetCpuMillicores() < 0 || in.GetMemoryMib() < 0 || in.GetGpuCount() < 0 {
		bad.Add("cpu_millicores", "cpu, memory and GPU count must not be below zero")
	}
	if mac := in.GetMacAddress(); mac != "" {
		if _, problem := lex.ParseMAC(mac); problem != "" {
			bad.Add("mac_address", "%s", problem)
		}
	}
	for _, v := range CheckNode(in.GetHardware()) {
		bad.Add("hardware."+v.Field, "%s", v.Description)
	}
	return bad.Fields
}

// hardwarePaths returns the fields of the node facet that an agent may set: those read from
// the hardware. Host name and address have fields of their own in the registration.
func hardwarePaths() []string {
	return []string{"vendor", "model", "serial_number", "system_uuid", "arch", "boot_mode"}
}

// copyFacts copies the facts in an agent's registration to its machine. All changes are one
// history entry. Facts claim no unique keys: only the inventory's MAC addresses and serial
// numbers do.
func copyFacts(t *core.Tx, m *holdfastv1.Machine, in *holdfastv1.RegisterAgentRequest) {
	a, d := m.GetAgent(), factDiff{known: m.GetAgent().GetRegisteredAt() != nil}
	text := func(name string, field *string, is string) {
		d.note("agent."+name, *field, is)
		*field = is
	}
	count := func(name string, field *int64, is int64) {
		d.note("agent."+name, strconv.FormatInt(*field, 10), strconv.FormatInt(is, 10))
		*field = is
	}
	text("provider_name", &a.ProviderName, cmp.Or(in.GetProviderName(), a.GetProviderName(), GenericProvider))
	text("hostname", &a.Hostname, in.GetHostname())
	text("private_ip", &a.PrivateIp, in.GetPrivateIp())
	if mac, ok := lex.MAC(in.GetMacAddress()); ok {
		text("mac_address", &a.MacAddress, mac)
	}
	gpus := int64(a.GetGpuCount())
	count("cpu_millicores", &a.CpuMillicores, in.GetCpuMillicores())
	count("memory_mib", &a.MemoryMib, in.GetMemoryMib())
	count("gpu_count", &gpus, int64(in.GetGpuCount()))
	a.GpuCount = in.GetGpuCount()
	copyHardware(m, in.GetHardware(), &d)
	notePorts(t, m, a.GetMacAddress())
	NoteBoard(t, m)
	if len(d.names) > 0 {
		events.AddHistory(t, m, &holdfastv1.HistoryEntry{
			Facet: "inventory", To: strings.Join(d.names, ", "), TriggeredBy: "agent", Metadata: d.values,
		})
	}
}

// copyHardware copies the facts that an agent has read from the hardware.
func copyHardware(m *holdfastv1.Machine, in *holdfastv1.NodeRecord, d *factDiff) {
	if in == nil {
		return
	}
	reported := NodeText(in)
	for _, p := range hardwarePaths() {
		is := *reported[p]
		if is == "" {
			continue
		}
		if m.Node == nil {
			m.Node = &holdfastv1.NodeRecord{}
		}
		field := NodeText(m.Node)[p]
		d.noteOver("node."+p, *field, is)
		*field = is
	}
}

// factDiff collects changed facts.
type factDiff struct {
	known  bool // the agent has registered before; otherwise its facts are new and not changes
	names  []string
	values map[string]string
}

func (d *factDiff) note(name, was, is string) {
	if d.known {
		d.noteOver(name, was, is)
	}
}

// noteOver records a change of a field that others than the agent may have set.
func (d *factDiff) noteOver(name, was, is string) {
	if was == is || was == "" && !d.known {
		return
	}
	if d.values == nil {
		d.values = map[string]string{}
	}
	d.names, d.values[name] = append(d.names, name), was+" -> "+is
}
