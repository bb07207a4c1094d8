package sshexec

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// netManager is what configures the network of a host.
type netManager string

const (
	netplan        netManager = "netplan"
	networkd       netManager = "networkd"
	ifupdown       netManager = "ifupdown"
	networkManager netManager = "networkmanager"
)

// netFile is one file of a network configuration.
type netFile struct{ path, text string }

// fileLine begins a file in a configuration that has several: "# file:
// /etc/systemd/network/10-bond0.netdev".
var fileLine = regexp.MustCompile(`^#\s*file:\s*(\S+)\s*$`)

// places are the files that each manager reads.
func places() map[netManager]*regexp.Regexp {
	return map[netManager]*regexp.Regexp{
		netplan:        regexp.MustCompile(`^/etc/netplan/[A-Za-z0-9][A-Za-z0-9._-]*\.yaml$`),
		networkd:       regexp.MustCompile(`^/etc/systemd/network/[A-Za-z0-9][A-Za-z0-9._-]*\.(network|netdev|link)$`),
		ifupdown:       regexp.MustCompile(`^/etc/network/(interfaces|interfaces\.d/[A-Za-z0-9][A-Za-z0-9._-]*)$`),
		networkManager: regexp.MustCompile(`^/etc/NetworkManager/system-connections/[A-Za-z0-9][A-Za-z0-9._-]*\.nmconnection$`),
	}
}

// maxNetFiles bounds the files of one configuration.
const maxNetFiles = 100

// parseNet reads a network configuration: the files of one manager. Text without a line "# file:
// PATH" is one file, and what it looks like decides where it goes: YAML with "network:" is
// netplan's, "[Match]" is systemd-networkd's, "iface" is ifupdown's, in place of all of
// /etc/network/interfaces, and "[connection]" at its beginning is a connection of NetworkManager.
func parseNet(config string) (netManager, []netFile, error) {
	if strings.ContainsRune(config, 0) {
		return "", nil, errors.New("network configuration holds a NUL byte")
	}
	var files []netFile
	var lead string
	for l := range strings.Lines(config) {
		switch m := fileLine.FindStringSubmatch(strings.TrimRight(l, "\r\n")); {
		case m != nil:
			files = append(files, netFile{path: m[1]})
		case len(files) > 0:
			files[len(files)-1].text += l
		default:
			lead += l
		}
	}
	if len(files) == 0 {
		m, path, err := guessNet(config)
		if err != nil {
			return "", nil, err
		}
		return m, []netFile{{path, config}}, checkNet(m, config)
	}
	if strings.TrimSpace(lead) != "" {
		return "", nil, errors.New("network configuration: there is text before the first line \"# file: PATH\"")
	}
	if len(files) > maxNetFiles {
		return "", nil, fmt.Errorf("network configuration: %d files, more than %d", len(files), maxNetFiles)
	}
	var all netManager
	for i, f := range files {
		m := managerOf(f.path)
		if m == "" {
			return "", nil, fmt.Errorf("network configuration: %q is no file of netplan (/etc/netplan/*.yaml), systemd-networkd (/etc/systemd/network/*.network, .netdev, .link), ifupdown (/etc/network/interfaces, interfaces.d/*) or NetworkManager (/etc/NetworkManager/system-connections/*.nmconnection)", clip(f.path, 200))
		}
		if all != "" && m != all {
			return "", nil, fmt.Errorf("network configuration: %s is %s's, and the files before it are %s's: one manager at a time", f.path, m, all)
		}
		if slices.ContainsFunc(files[:i], func(g netFile) bool { return g.path == f.path }) {
			return "", nil, fmt.Errorf("network configuration: %s is there twice", f.path)
		}
		if err := checkNet(m, f.text); err != nil {
			return "", nil, fmt.Errorf("%s: %w", f.path, err)
		}
		all = m
	}
	return all, files, nil
}

func managerOf(path string) netManager {
	for m, r := range places() {
		if r.MatchString(path) {
			return m
		}
	}
	return ""
}

func guessNet(text string) (netManager, string, error) {
	for l := range strings.Lines(text) {
		l = strings.TrimSpace(l)
		if l == "" || l == "---" || l[0] == '#' || l[0] == ';' {
			continue
		}
		switch word, _, _ := strings.Cut(l, " "); {
		case strings.HasPrefix(l, "network:"):
			return netplan, "/etc/netplan/90-holdfast.yaml", nil
		case l == "[connection]":
			return networkManager, "/etc/NetworkManager/system-connections/90-holdfast.nmconnection", nil
		case l[0] == '[':
			return networkd, "/etc/systemd/network/10-holdfast.network", nil
		case slices.Contains([]string{"auto", "iface", "source", "source-directory", "mapping", "allow-auto", "allow-hotplug"}, word):
			return ifupdown, "/etc/network/interfaces", nil
		}
		break
	}
	return "", "", errors.New(`network configuration is none of netplan ("network:"), systemd-networkd ("[Match]"), ifupdown ("iface") or NetworkManager ("[connection]"); name its files by lines "# file: PATH"`)
}

// connectionID is the name that NetworkManager knows a connection by.
var connectionID = regexp.MustCompile(`(?m)^\[connection\]\r?\n(?:[^\[].*\n|\s*\n)*?id\s*=\s*\S`)

func checkNet(m netManager, text string) error {
	switch m {
	case networkManager:
		if !connectionID.MatchString(text) {
			return errors.New(`network configuration has no "id=" in the section [connection]: name the connection`)
		}
		return nil
	case netplan:
	default:
		return nil
	}
	var doc struct {
		Network map[string]any `json:"network"`
	}
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		return fmt.Errorf("network configuration is no YAML: %w", err)
	}
	if doc.Network == nil {
		return errors.New("network configuration has no \"network:\"")
	}
	return nil
}
