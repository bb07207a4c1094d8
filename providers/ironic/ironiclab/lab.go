// Package ironiclab runs Debian's Ironic with fake hardware: its configuration, its database, the
// command lines of its programs, and a client. The provider's tests against a real Ironic use it
// (make e2e-ironic), and `holdfast-bench runs` compares with it.
//
// It does not start long-running programs: its users have their own ways to do that. No peer uses
// it.
package ironiclab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// Config is the configuration of an Ironic with one conductor.
type Config struct {
	Programs string // directory of ironic-api, ironic-conductor and ironic-dbsync; empty: $PATH
	Dir      string // empty or new; for the database, configuration and logs
	API, RPC string // 127.0.0.1:port each, of the API and the conductor
	Workers  int    // of the API; zero: one
	Settings string // additional sections of ironic.conf; existing ones are extended
}

// Lab is an Ironic that can be started.
type Lab struct {
	*Client

	cfg  Config
	file string // ironic.conf
}

// settings are common to all labs: one conductor without a message bus, no login, the driver for
// fake hardware.
const settings = `[DEFAULT]
auth_strategy = noauth
rpc_transport = json-rpc
host = 127.0.0.1
my_ip = 127.0.0.1
state_path = DIR/state
tempdir = DIR/tmp
enabled_hardware_types = fake-hardware
enabled_bios_interfaces = fake
enabled_boot_interfaces = fake
enabled_console_interfaces = fake
enabled_deploy_interfaces = fake
enabled_inspect_interfaces = fake
enabled_management_interfaces = fake
enabled_network_interfaces = noop
enabled_power_interfaces = fake
enabled_raid_interfaces = fake
enabled_rescue_interfaces = fake
enabled_storage_interfaces = noop
enabled_vendor_interfaces = fake
default_network_interface = noop
[api]
host_ip = 127.0.0.1
port = API
api_workers = WORKERS
[json_rpc]
auth_strategy = noauth
host_ip = 127.0.0.1
port = RPC
[database]
connection = sqlite:///DIR/ironic.sqlite
[oslo_concurrency]
lock_path = DIR/locks
`

// render returns the contents of ironic.conf.
func (c Config) render() (string, error) {
	ports := map[string]string{}
	for name, addr := range map[string]string{"API": c.API, "RPC": c.RPC} {
		host, port, err := net.SplitHostPort(addr)
		if err != nil || host != "127.0.0.1" {
			err = errors.Join(fmt.Errorf("set the address of Ironic's %s to 127.0.0.1:port, not %q", name, addr), err)
			return "", err
		}
		ports[name] = port
	}
	r := strings.NewReplacer("DIR", c.Dir, "API", ports["API"], "RPC", ports["RPC"],
		"WORKERS", strconv.Itoa(max(1, c.Workers)))
	return r.Replace(settings) + c.Settings, nil
}

// Prepare writes the configuration of an Ironic and creates its database. The caller then starts
// the programs (Conductor and API).
func Prepare(ctx context.Context, cfg Config) (*Lab, error) {
	text, err := cfg.render()
	if err != nil {
		return nil, err
	}
	for _, sub := range []string{"state", "tmp", "locks"} {
		if err := os.MkdirAll(filepath.Join(cfg.Dir, sub), 0o700); err != nil {
			return nil, fmt.Errorf("create directory for Ironic: %w", err)
		}
	}
	l := &Lab{Client: NewClient("http://" + cfg.API), cfg: cfg, file: filepath.Join(cfg.Dir, "ironic.conf")}
	if err := os.WriteFile(l.file, []byte(text), 0o600); err != nil {
		return nil, fmt.Errorf("write the configuration of Ironic: %w", err)
	}
	// SQLite databases cannot be migrated, so the schema is created for this version.
	//nolint:gosec // the user of the test or benchmark names the program
	sync := exec.CommandContext(ctx, cfg.program("ironic-dbsync"), "--config-file", l.file, "create_schema")
	if out, err := sync.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("create the database of Ironic: %w: %s", err, out)
	}
	return l, writeAhead(filepath.Join(cfg.Dir, "ironic.sqlite"))
}

// writeAhead switches a SQLite database that is not open to write-ahead logging: one sync per
// transaction, and readers do not wait for writers. Bytes 18 and 19 of the file select it
// (sqlite.org/fileformat2.html, 1.3.3). Ironic has no setting for it.
func writeAhead(file string) error {
	const magic, at = "SQLite format 3\x00", 18
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("open the database of Ironic: %w", err)
	}
	head := make([]byte, len(magic))
	if _, err = f.ReadAt(head, 0); err == nil && string(head) != magic {
		err = fmt.Errorf("it begins with %q, not with the header of a SQLite database", head)
	}
	if err == nil {
		_, err = f.WriteAt([]byte{2, 2}, at)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("switch %s to write-ahead logging: %w", file, err)
	}
	return nil
}

func (c Config) program(name string) string { return filepath.Join(c.Programs, name) }

// Conductor returns the program of the conductor, and its arguments.
func (l *Lab) Conductor() (program string, args []string) {
	return l.cfg.program("ironic-conductor"), []string{"--config-file", l.file}
}

// API returns the program that serves the API, and its arguments. It starts one more process per
// worker.
func (l *Lab) API() (program string, args []string) {
	return l.cfg.program("ironic-api"), []string{"--config-file", l.file}
}

// Version returns the version of the conductor's program, such as 21.4.4.
func (c Config) Version(ctx context.Context) (string, error) {
	//nolint:gosec // the user of the test or benchmark names the program
	out, err := exec.CommandContext(ctx, c.program("ironic-conductor"), "--version").Output()
	if err != nil {
		return "", fmt.Errorf("read the version of %s: %w", c.program("ironic-conductor"), err)
	}
	return strings.TrimSpace(string(out)), nil
}

// Missing returns the missing programs of Ironic, or "".
func (c Config) Missing() string {
	var missing []string
	for _, name := range []string{"ironic-api", "ironic-conductor", "ironic-dbsync"} {
		if _, err := exec.LookPath(c.program(name)); err != nil {
			missing = append(missing, c.program(name))
		}
	}
	return strings.Join(missing, ", ")
}
