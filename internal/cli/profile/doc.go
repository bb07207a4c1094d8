// Package profile stores the contexts of the command line: the known clusters, their addresses
// and credentials, and the current one.
//
// It owns ~/.config/holdfast/config.yaml, which may contain tokens: the file is written with
// mode 0600 and refused if other users can read it. It must not connect to anything.
package profile

import (
	"cmp"
	"fmt"
	"path/filepath"
)

// Context is one cluster.
type Context struct {
	Addrs []string `yaml:"addrs"`
	Token string   `yaml:"token,omitempty"`
	CA    string   `yaml:"ca,omitempty"`   // file with the CA certificates, PEM
	Cert  string   `yaml:"cert,omitempty"` // file with the client certificate, PEM
	Key   string   `yaml:"key,omitempty"`  // file with its key, PEM
}

// File is the configuration file.
type File struct {
	Current  string             `yaml:"current,omitempty"`
	Contexts map[string]Context `yaml:"contexts,omitempty"`
}

// Path returns the path of the file: HOLDFAST_CONTEXTS, else holdfast/config.yaml under
// XDG_CONFIG_HOME, else under ~/.config. Its former name, HOLDFAST_CONFIG, still works, but a
// peer reads that as the path of its own configuration.
func Path(getenv func(string) string) (string, error) {
	if p := cmp.Or(getenv("HOLDFAST_CONTEXTS"), getenv("HOLDFAST_CONFIG")); p != "" {
		return p, nil
	}
	dir := getenv("XDG_CONFIG_HOME")
	if dir == "" {
		home := getenv("HOME")
		if home == "" {
			return "", fmt.Errorf("find the config file: neither HOLDFAST_CONTEXTS, XDG_CONFIG_HOME nor HOME is set: set " +
				"one, or give --addr")
		}
		dir = filepath.Join(home, ".config")
	}
	return filepath.Join(dir, "holdfast", "config.yaml"), nil
}
