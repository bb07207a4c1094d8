package image

import (
	"fmt"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// uid is the user and the group of all processes. It is that of "nonroot" in other images without a
// distribution, and reserved on Debian.
const uid = 65532

const source = "https://github.com/holdfast-metal/holdfast"

// profile is the part of an image that depends on its binary.
type profile struct {
	title    string
	command  []string
	ports    []string
	programs bool // with the programs of Debian that the binary starts
}

func profileOf(name string) (profile, error) {
	switch name {
	case "holdfast":
		return profile{
			title:    "Highly available control plane for bare metal",
			command:  []string{"server"},
			ports:    []string{"7400/tcp", "7401/tcp", "7402/tcp", "7403/tcp", "7403/udp"},
			programs: true,
		}, nil
	case "holdfast-agent":
		return profile{title: "Agent of a Holdfast cluster", command: []string{"run"}}, nil
	}
	return profile{}, fmt.Errorf("image %q: want holdfast or holdfast-agent", name)
}

// config returns what a container of the image runs.
func (p profile) config(c Config) v1.Config {
	ports := make(map[string]struct{}, len(p.ports))
	for _, port := range p.ports {
		ports[port] = struct{}{}
	}
	return v1.Config{
		User:         fmt.Sprintf("%d:%d", uid, uid), // Kubernetes cannot check that a name is not root
		Env:          []string{"PATH=/usr/bin"},
		Entrypoint:   []string{"/usr/bin/" + c.Name},
		Cmd:          p.command,
		WorkingDir:   "/" + dataDir(c.Name),
		Volumes:      map[string]struct{}{"/" + dataDir(c.Name): {}},
		ExposedPorts: ports,
		StopSignal:   "SIGTERM",
		Labels:       p.labels(c),
	}
}

// labels returns the annotations of the OCI image specification.
func (p profile) labels(c Config) map[string]string {
	labels := map[string]string{
		"org.opencontainers.image.title":         c.Name,
		"org.opencontainers.image.description":   p.title,
		"org.opencontainers.image.version":       c.Version,
		"org.opencontainers.image.created":       c.At.Format(time.RFC3339),
		"org.opencontainers.image.source":        source,
		"org.opencontainers.image.documentation": source + "/blob/main/docs/containers.md",
		"org.opencontainers.image.licenses":      "Apache-2.0",
	}
	if c.Revision != "" {
		labels["org.opencontainers.image.revision"] = c.Revision
	}
	return labels
}

// dataDir returns the directory of the data, without the leading slash.
func dataDir(name string) string { return "var/lib/" + name }
