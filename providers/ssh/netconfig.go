package sshexec

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/holdfast-metal/holdfast/providers/internal/text"
)

// netManager is the software that configures the network of a host.
type netManager string

const (
	netplan        netManager = "netplan"
	networkd       netManager = "networkd"
	ifupdown       netManager = "ifupdown"
	networkManager netManager = "networkmanager"
)

// netFile is one file of a network configuration.
type netFile struct{ path, text string }

// fileLine matches the line that starts a file in a configuration of several files:
// "# file: /etc/systemd/network/10-bond0.netdev".
var fileLine = regexp.MustCompile(`^#\s*file:\s*(\S+)\s*$`)

// places returns the files that each manager reads.
func places() map[netManager]*regexp.Regexp {
	const name = `[A-Za-z0-9][A-Za-z0-9._-]*`
	return map[netManager]*regexp.Regexp{
		netplan:        regexp.MustCompile(`^/etc/netplan/` + name + `\.yaml$`),
		networkd:       regexp.MustCompile(`^/etc/systemd/network/` + name + `\.(network|netdev|link)$`),
		ifupdown:       regexp.MustCompile(`^/etc/network/(interfaces|interfaces\.d/` + name + `)$`),
		networkManager: regexp.MustCompile(`^/etc/NetworkManager/system-connections/` + name + `\.nmconnection$`),
	}
}

// maxNetFiles bounds the files of one configuration.
const maxNetFiles = 100

// parseNet parses a network configuration: the files of one manager. Text without a line
// "# file: PATH" is one file. Its content decides its path: YAML with "network:" is netplan's,
// "[Match]" is systemd-networkd's, "iface" is ifupdown's and replaces all of
// /etc/network/interfaces, and a leading "[connection]" is a connection of NetworkManager.
func parseNet(config string) (netManager, []netFile, error) {
	if strings.ContainsRune(config, 0) {
		return "", nil, errors.New("network configuration contains a NUL byte")
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
		return "", nil, errors.New(`network configuration has text before the first line "# file: PATH"`)
	}
	if len(files) > maxNetFiles {
		return "", nil, fmt.Errorf("network configuration has %d files: want at most %d", len(files), maxNetFiles)
	}
	var all netManager
	for i, f := range files {
		m := managerOf(f.path)
		if m == "" {
			return "", nil, fmt.Errorf("network configuration: %q is not a file of netplan "+
				"(/etc/netplan/*.yaml), systemd-networkd (/etc/systemd/network/*.network, .netdev, .link), "+
				"ifupdown (/etc/network/interfaces, interfaces.d/*) or NetworkManager "+
				"(/etc/NetworkManager/system-connections/*.nmconnection)", text.Clip(f.path, 200))
		}
		if all != "" && m != all {
			return "", nil, fmt.Errorf("network configuration: %s belongs to %s, and the files before it to %s: "+
				"use one manager", f.path, m, all)
		}
		if slices.ContainsFunc(files[:i], func(g netFile) bool { return g.path == f.path }) {
			return "", nil, fmt.Errorf("network configuration: file %s occurs twice", f.path)
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
		word, _, _ := strings.Cut(l, " ")
		switch {
		case strings.HasPrefix(l, "network:"):
			return netplan, "/etc/netplan/90-holdfast.yaml", nil
		case l == "[connection]":
			return networkManager, "/etc/NetworkManager/system-connections/90-holdfast.nmconnection", nil
		case l[0] == '[':
			return networkd, "/etc/systemd/network/10-holdfast.network", nil
		case slices.Contains(ifupdownWords(), word):
			return ifupdown, "/etc/network/interfaces", nil
		}
		break
	}
	return "", "", errors.New(`network configuration is not one of netplan ("network:"), ` +
		`systemd-networkd ("[Match]"), ifupdown ("iface") or NetworkManager ("[connection]"): ` +
		`name its files with lines "# file: PATH"`)
}

// ifupdownWords returns the words that can start a line of ifupdown.
func ifupdownWords() []string {
	return []string{"auto", "iface", "source", "source-directory", "mapping", "allow-auto", "allow-hotplug"}
}

// connectionID matches the id of a connection of NetworkManager.
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
		return fmt.Errorf("network configuration is not valid YAML: %w", err)
	}
	if doc.Network == nil {
		return errors.New("network configuration has no \"network:\"")
	}
	return nil
}
