package sshexec

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/holdfast-metal/holdfast/internal/hostaddr"
	"github.com/holdfast-metal/holdfast/providers/guard"
)

// allowance is an entry of Config.JumpAllow.
type allowance struct {
	network netip.Prefix // of addresses; otherwise a name
	name    string       // in lower case; ".suffix" for *.suffix
}

func parseAllow(text string) (allowance, error) {
	if n, err := netip.ParsePrefix(text); err == nil {
		return allowance{network: n.Masked()}, nil
	}
	if a, ok := hostaddr.Of(text); ok {
		a = a.Unmap().WithZone("")
		return allowance{network: netip.PrefixFrom(a, a.BitLen())}, nil
	}
	name := strings.TrimPrefix(strings.TrimSuffix(strings.ToLower(text), "."), "*")
	if plain := strings.TrimPrefix(name, "."); plain == "" || strings.Trim(plain, hostChars) != "" ||
		strings.HasPrefix(text, "*") != strings.HasPrefix(name, ".") {
		return allowance{}, fmt.Errorf("%s is not allowed: want a name such as host7.example or *.example, an address or a "+
			"network", strconv.Quote(text))
	}
	return allowance{name: name}, nil
}

const hostChars = "abcdefghijklmnopqrstuvwxyz0123456789.-_"

// checkBehind returns an error if no machine behind jump hosts may have an address. The last jump
// host makes the connection: it resolves names, so that a peer cannot see where they lead, and a
// reserved address is one of its own.
func (c *Config) checkBehind(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("read %q: %w", address, err)
	}
	a, is := hostaddr.Of(host)
	a = a.Unmap().WithZone("")
	if is && !guard.Reserved(a) {
		return nil
	}
	name := strings.TrimSuffix(strings.ToLower(host), ".")
	for _, text := range c.JumpAllow {
		allow, err := parseAllow(text)
		switch {
		case err != nil: // Validate has refused it
		case is && allow.network.IsValid() && allow.network.Contains(a),
			!is && allow.name != "" && (name == allow.name || allow.name[0] == '.' && strings.HasSuffix(name, allow.name)):
			return nil
		}
	}
	if is {
		return fmt.Errorf("ssh_endpoint %s is an address of the jump host itself, of its link, or of its cloud: correct it, "+
			"or add it to jump_allow of the provider", host)
	}
	return fmt.Errorf("ssh_endpoint %s is a name that the jump host resolves, so no peer can check where it leads: "+
		"enter the address, or add the name to jump_allow of the provider", host)
}
