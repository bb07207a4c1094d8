package prometheusapi

import (
	"cmp"
	"net"
	"net/url"
	"strconv"
	"strings"

	holdfastv1 "github.com/holdfast-metal/holdfast/proto/holdfast/v1"
)

// group is a target with its labels. Labels that begin with __meta_ can be used for
// relabeling, and Prometheus drops them afterwards.
type group struct {
	Targets []string          `json:"targets"`
	Labels  map[string]string `json:"labels"`
}

// prefix is the prefix of all labels.
const prefix = "__meta_holdfast_"

// addresses returns the values of ?address= with a function for each that returns a
// machine's address, or "" if it has none.
func addresses() map[string]func(*holdfastv1.Machine) string {
	return map[string]func(*holdfastv1.Machine) string{"": hostAddress, "host": hostAddress, "bmc": bmcAddress}
}

// hostAddress returns the address of a machine's host. It prefers the address reported by
// the agent, then that of the installer, then the configured SSH endpoint.
func hostAddress(m *holdfastv1.Machine) string {
	return cmp.Or(m.GetAgent().GetPrivateIp(), m.GetNode().GetIpAddress(), hostOf(m.GetSpec().GetSshEndpoint()))
}

func bmcAddress(m *holdfastv1.Machine) string { return hostOf(m.GetSpec().GetBmcEndpoint()) }

// hostOf returns the host of an endpoint: host, host:port, user@host:port,
// [2001:db8::1]:22, https://host/redfish.
func hostOf(endpoint string) string {
	if _, rest, ok := strings.Cut(endpoint, "://"); ok {
		u, err := url.Parse("x://" + rest)
		if err != nil {
			return ""
		}
		return u.Hostname()
	}
	if i := strings.LastIndexByte(endpoint, '@'); i >= 0 {
		endpoint = endpoint[i+1:]
	}
	if host, _, err := net.SplitHostPort(endpoint); err == nil {
		return host
	}
	return strings.Trim(endpoint, "[]")
}

// groupOf returns the target of a machine. Every label is always present, and empty if
// unknown, so that relabeling rules can rely on it.
func groupOf(m *holdfastv1.Machine, host string, port int) group {
	labels := map[string]string{
		prefix + "machine_id":      m.GetMachineId(),
		prefix + "pool":            m.GetSpec().GetPool(),
		prefix + "rack":            m.GetSpec().GetRack(),
		prefix + "location":        m.GetSpec().GetLocation(),
		prefix + "provider":        m.GetSpec().GetProvider(),
		prefix + "cluster":         m.GetSpec().GetTargetClusterRef(),
		prefix + "hostname":        cmp.Or(m.GetAgent().GetHostname(), m.GetNode().GetHostname()),
		prefix + "phase":           m.GetStatus().GetPhase().String(),
		prefix + "effective_state": m.GetStatus().GetEffectiveState().String(),
		prefix + "node_state":      facet(m.GetStatus().GetNodeState().String(), "NODE_STATE_UNSPECIFIED"),
		prefix + "agent_state":     facet(m.GetStatus().GetAgentState().String(), "AGENT_STATE_UNSPECIFIED"),
	}
	for name, value := range m.GetLabels() {
		labels[prefix+"label_"+labelName(name)] = value
	}
	return group{[]string{net.JoinHostPort(host, strconv.Itoa(port))}, labels}
}

func facet(state, none string) string {
	if state == none {
		return ""
	}
	return state
}

// labelName converts a name to a valid Prometheus label. Characters other than letters,
// digits and underscores become underscores, as in Prometheus's own discoveries.
func labelName(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, name)
}
